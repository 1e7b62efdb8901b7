// Elections through leader agent, with the modules of Node alone.
//
//     const candidate = await stand('http://127.0.0.1:9467', 'reports', 'host-1')
//     for await (const term of candidate.terms()) {   // each term that this program wins
//       while (term.trusted()) await step(term.signal) // ask before every step
//     }
//
// A term ends when trusted() says no; its work must then have stopped, since the
// end of the loop's body tells the agent so, and another may lead at once.
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

// The instant by two clocks: the monotonic one stands still while the machine is
// suspended, and the other may be set. The earlier verdict counts.
const instant = () => ({ mono: Number(process.hrtime.bigint()) / 1e6, wall: Date.now() })
const later = (t, ms) => ({ mono: t.mono + ms, wall: t.wall + ms })
const before = (t, u) => t.mono < u.mono && t.wall < u.wall

// A Term is one time of leadership. Its number only grows: give it to what must
// refuse a stale leader. Its signal is aborted when the trust ends.
class Term {
  #candidate
  #abort = new AbortController()

  constructor (candidate, number, token) {
    this.#candidate = candidate
    Object.assign(this, { number, token, signal: this.#abort.signal })
    this.check()
  }

  // The end of the trust in ms of the monotonic clock, 0 if it has ended for good.
  get until () { return this.#candidate.term === this.number ? this.#candidate.until.mono : 0 }

  // Reports whether the program may act. A pause may follow: keep the steps short.
  trusted () { return this.until > 0 && before(instant(), this.#candidate.until) }

  // Aborts the signal, or looks again when the trust would end.
  check () {
    if (!this.trusted()) return this.#abort.abort()
    setTimeout(() => this.check(), Math.min(this.until - instant().mono + 1, 250)).unref()
  }
}

class Candidate {
  #agent; #base; #wish; #bearer; #path; #pace = 1000; #stopped = 0; #over = false
  #given = 0; #due = false; #wake = () => {}; #news = () => {}
  term = 0; token = ''; until = { mono: 0, wall: 0 }

  constructor (agent, group, id, { token, ...settings }) {
    this.#agent = new URL(agent)
    this.#base = `/v1/groups/${encodeURIComponent(group)}/candidates`
    this.#wish = { ...settings, instance_id: id }
    this.#bearer = token
  }

  async stand () {
    const sent = instant()
    const answer = await this.#ask('POST', this.#base, this.#wish)
    this.#path = `${this.#base}/${answer.candidate}`
    this.#given = 0
    this.#take(sent, answer)
  }

  // Yields each term. To ask for the next one says that the work of the last has stopped.
  async * terms () {
    while (!this.#over) {
      if (this.term === 0) { await new Promise(resolve => { this.#news = resolve }); continue }
      const term = new Term(this, this.term, this.token)
      try { yield term } finally {
        this.term = 0
        this.#stopped = term.number // before it is said: no answer that is under way counts any more
        await this.#ask('POST', this.#path + '/resign', { stopped_term: term.number }).catch(() => {}) // else the trust runs out
      }
    }
  }

  // Leaves the election. The work must have stopped.
  async close () {
    this.#over = true
    this.term = 0
    this.#soon(); this.#news()
    await this.#ask('DELETE', `${this.#path}?stopped_term=${this.#given}`).catch(() => {}) // else the lease runs out
  }

  #take (sent, answer) {
    const term = answer.trust_for_ms > 0 ? answer.term : 0
    this.until = later(sent, answer.trust_for_ms)
    this.term = term > this.#stopped && !this.#over ? term : 0
    this.#given = Math.max(this.#given, term)
    this.token = answer.token
    this.#pace = answer.keepalive_after_ms
    this.#news()
  }

  #soon () { this.#due = true; this.#wake() }
  // Keepalives, one after the other, so that the latest answer counts.
  async stay () {
    while (!this.#over) {
      try {
        const sent = instant() // never later: what the answer grants counts from here
        this.#take(sent, await this.#ask('POST', this.#path + '/keepalive'))
      } catch (problem) { // the trust runs out, unless an answer comes
        if (problem.code === 'no_candidate') await this.stand().catch(() => {}) // tried again after the next keepalive
      }
      if (!this.#due) await Promise.race([sleep(this.#pace), new Promise(resolve => { this.#wake = resolve })])
      this.#due = false
    }
  }

  // An event grants nothing, and says that it is time to ask.
  async listen () {
    while (!this.#over) {
      try {
        for await (const text of await this.#open('GET', this.#path + '/events')) {
          if (this.#over) return
          if (String(text).includes('data:')) this.#soon()
        }
      } catch {}
      await sleep(Math.min(this.#pace, 1000))
    }
  }

  #open (method, path, body) {
    const { protocol, hostname, port, pathname } = this.#agent
    const where = protocol === 'unix:' ? { socketPath: pathname, host: 'localhost' } : { host: hostname, port }
    const headers = { ...(body && { 'Content-Type': 'application/json' }), ...(this.#bearer && { Authorization: `Bearer ${this.#bearer}` }) }
    return new Promise((resolve, reject) => {
      const request = http.request({ ...where, method, path, headers, agent: false, timeout: 10000 }, resolve)
      request.on('error', reject).on('timeout', () => request.destroy(new Error('the agent is silent')))
      request.end(body && JSON.stringify(body))
    })
  }

  async #ask (method, path, body) {
    const response = await this.#open(method, path, body)
    const text = (await response.setEncoding('utf8').toArray()).join('') || '{}'
    const answer = JSON.parse(text)
    if (response.statusCode >= 300) throw Object.assign(new Error(answer.detail), answer) // its code says why
    return answer
  }
}

// Stands for a group. Settings are token and those of POST …/candidates, such as ttl_ms.
export async function stand (agent, group, id, settings = {}) {
  const candidate = new Candidate(agent, group, id, settings)
  await candidate.stand()
  candidate.stay()
  candidate.listen()
  return candidate
}
