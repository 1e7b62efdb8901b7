"""Elections through leader agent, with the standard library alone.

    with Candidate("http://127.0.0.1:9467", "reports", "host-1") as candidate:
        for term in candidate.terms():       # each term that this program wins
            while term.trusted():            # ask before every step
                ...                          # one short step of work

A term ends when trusted() says no; its work must then have stopped, since the
end of the loop's body tells the agent so, and another may lead at once."""
import http.client
import json
import socket
import threading
import time
import urllib.parse


def now():
    """Seconds on a clock that nobody sets and, on Linux, no suspension stops."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def instant():
    """now(), and the wall clock where a suspension stops the other, though it may be set: the earlier verdict counts."""
    return now(), now() if hasattr(time, "CLOCK_BOOTTIME") else time.time()


class Problem(Exception):
    """What the agent refuses: its code says why."""
    code = property(lambda self: self.args[0])


FAILURES = (OSError, http.client.HTTPException, ValueError, Problem)


class Term:
    """A time of leadership. Its number only grows: what must refuse a stale leader compares it."""

    def __init__(self, candidate, number, token):
        self._candidate, self.number, self.token = candidate, number, token

    @property
    def until(self):
        """When the trust ends, by now(), unless it is extended; 0 if it has ended for good."""
        return self._ends()[0]

    def _ends(self):
        with self._candidate.changed:
            return self._candidate.ends if self._candidate.term == self.number else (0, 0)

    def trusted(self):
        """Reports whether the program may act. A pause may follow: keep the steps short."""
        ends = self._ends()
        return all(at < end for at, end in zip(instant(), ends))


class Candidate:
    """A candidate of a group. More settings, such as ttl_ms, are those of POST …/candidates."""

    def __init__(self, agent, group, instance_id, token=None, timeout=10, **settings):
        self._url, self._bearer, self._timeout = urllib.parse.urlsplit(agent), token, timeout
        self._base = f"/v1/groups/{urllib.parse.quote(group, safe='')}/candidates"
        self._wish = dict(settings, instance_id=instance_id)
        self._path, self._pace, self._given, self._stopped = None, 1, 0, 0
        self.term, self.token, self.ends, self._over = 0, "", (0, 0), False
        self.changed, self._wake = threading.Condition(), threading.Event()
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._stay, self._listen)]

    def __enter__(self):
        self._campaign()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        with self.changed:  # the body of the with statement is over, and so is the work
            self.term, self._over = 0, True
        self._wake.set()
        self._threads[0].join()
        self._try("DELETE", f"{self._path}?stopped_term={self._given}")  # else the lease runs out

    def terms(self):
        """Yields each term. To ask for the next one says that the work of the last has stopped."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.term or self._over)
                if self._over:
                    return
                term = Term(self, self.term, self.token)
            try:
                yield term
            finally:
                with self.changed:  # before it is said: no answer that is under way counts
                    self.term, self._stopped = 0, term.number
                self._try("POST", f"{self._path}/resign", {"stopped_term": term.number})  # else the trust runs out

    def _take(self, sent, answer):
        with self.changed:
            term = answer.get("term", 0) if answer["trust_for_ms"] > 0 else 0
            self.term = term if term > self._stopped and not self._over else 0
            self.token, self.ends = answer.get("token", ""), tuple(at + answer["trust_for_ms"] / 1000 for at in sent)
            self._given, self._pace = max(self._given, term), answer["keepalive_after_ms"] / 1000
            self.changed.notify_all()

    def _campaign(self):
        sent, answer = instant(), self._ask("POST", self._base, self._wish)
        self._path, self._given = f"{self._base}/{answer['candidate']}", 0
        self._take(sent, answer)

    def _stay(self):  # a thread: keepalives, one after the other, so that the latest answer counts
        while not self._over:
            try:
                if self._path is None:
                    self._campaign()
                sent = instant()  # never later: what the answer grants counts from here
                self._take(sent, self._ask("POST", f"{self._path}/keepalive"))
            except FAILURES as failure:  # the trust runs out, unless an answer comes
                if getattr(failure, "code", "") == "no_candidate":
                    self._path = None
            self._wake.wait(self._pace)
            self._wake.clear()

    def _listen(self):  # a thread: an event grants nothing, and says that it is time to ask
        while not self._over:
            try:
                with self._open("GET", f"{self._path}/events") as events:
                    for line in events:
                        if line.startswith(b"data:"):
                            self._wake.set()
            except FAILURES:
                pass
            time.sleep(min(self._pace, 1))

    def _open(self, method, path, body=None):
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self._bearer:
            headers["Authorization"] = "Bearer " + self._bearer
        connection = http.client.HTTPConnection(self._url.netloc or "localhost", timeout=self._timeout)
        if self._url.scheme == "unix":
            connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.sock.settimeout(self._timeout)
            connection.sock.connect(self._url.path)
        connection.request(method, path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        if response.status >= 300:
            problem = json.loads(response.read())
            raise Problem(problem["code"], problem["detail"])
        return response

    def _ask(self, method, path, body=None):
        with self._open(method, path, body) as response:
            return json.loads(response.read() or "{}")

    def _try(self, method, path, body=None):
        try:
            self._ask(method, path, body)
        except FAILURES:
            pass
