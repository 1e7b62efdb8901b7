package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// Check implements [store.Checker]. It refuses a replica, a server whose
// replica may be promoted while the server goes on to acknowledge writes (see
// [Options.Fenced]), and a user who may not read and write the request's key.
// It warns of each setting by which the
// server may lose a write that it acknowledged, and then reports the store as
// forgetful: no append-only file, one that is not synced before each answer,
// replicas that may take the master's place without that write, and settings
// that the user may not read. A server that evicts records for room is reported
// as one that expires them.
//
// Of a cluster all masters are examined.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	s.Pace(req.HeartbeatInterval, req.Key)
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return store.Report{}, err
	}
	defer cancel()
	var report store.Report
	err = s.await(ctx, func(ctx context.Context) (err error) {
		report, err = s.survey(ctx)
		return err
	})
	if err != nil {
		return store.Report{}, checkError(err)
	}
	if req.Key == "" {
		return report, nil
	}
	if err := base.Readable(ctx, s.Store, req); err != nil {
		return store.Report{}, err
	}
	var denied []string
	err = s.await(ctx, func(ctx context.Context) (err error) {
		denied, err = s.denied(ctx, req.Key)
		return err
	})
	if err != nil {
		return store.Report{}, checkError(err)
	}
	return s.allow(req.Key, denied, report)
}

func checkError(err error) error {
	if store.Classify(err) != store.Unknown {
		return err
	}
	return readError("the server was not examined", err)
}

// denied returns the commands that the user may not run on a register. That may
// be the scripts themselves.
func (c *client) denied(ctx context.Context, key string) ([]string, error) {
	n, err := c.node(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, command := range [][]any{{"evalsha", c.swap.name}, {"eval", c.examine.text}} {
		cmd := redis.NewCmd(ctx, append(command, 1, c.name(key), c.channel(key))...)
		if command[0] == "evalsha" {
			// A revision that no register has: whatever comes of it, nothing is
			// written.
			cmd = redis.NewCmd(ctx, append(command, 1, c.name(key), "none", live, "", c.channel(key))...)
		}
		err := n.Process(ctx, cmd)
		switch {
		case code(err) == "NOPERM":
			return []string{strings.ToUpper(fmt.Sprint(command[0]))}, nil
		case err != nil && code(err) != "NOSCRIPT":
			return nil, err
		case command[0] == "eval":
			return cmd.StringSlice()
		}
	}
	return nil, nil
}

// allow judges what the user may not.
func (c *client) allow(key string, denied []string, report store.Report) (store.Report, error) {
	var needed []string
	for _, command := range denied {
		switch command {
		case "PUBLISH":
			report.Warnings = append(report.Warnings, fmt.Sprintf("The user may not publish on the channel %q: others find this candidate's writes by looking,"+
				" which takes them up to ten times as long. Permit PUBLISH there.", c.channel(key)))
		case "SUBSCRIBE":
			report.Warnings = append(report.Warnings, fmt.Sprintf("The user may not subscribe to the channel %q: changes are found by looking, twice in each heartbeat."+
				" Permit SUBSCRIBE there.", c.channel(key)))
		default:
			needed = append(needed, command)
		}
	}
	if len(needed) > 0 {
		return store.Report{}, fmt.Errorf("%w: the user may not run %s on the key %q: see the rights that the package documentation lists",
			store.ErrPermanent, strings.Join(needed, ", "), c.name(key))
	}
	return report, nil
}

// survey examines every master.
func (c *client) survey(ctx context.Context) (store.Report, error) {
	var mu sync.Mutex
	var report store.Report
	err := c.masters(ctx, func(ctx context.Context, n *redis.Client) error {
		found, err := c.judge(ctx, n)
		mu.Lock()
		defer mu.Unlock()
		for _, w := range found.Warnings {
			if !slices.Contains(report.Warnings, w) {
				report.Warnings = append(report.Warnings, w)
			}
		}
		report.Forgetful = report.Forgetful || found.Forgetful
		report.Expires = report.Expires || found.Expires
		return err
	})
	return report, err
}

// judge returns a report of how a server's configuration affects elections.
func (c *client) judge(ctx context.Context, n *redis.Client) (store.Report, error) {
	var r store.Report
	warn := func(forgets bool, format string, args ...any) {
		r.Warnings = append(r.Warnings, "The Redis server "+fmt.Sprintf(format, args...))
		r.Forgetful = r.Forgetful || forgets
	}
	info, err := facts(n.Info(ctx).Result())
	switch {
	case code(err) == "NOPERM":
		warn(true, "does not let the user run INFO, so that nothing is known of its role, replicas and memory, and elections cool down before they promote. Permit INFO.")
		info = nil
	case err != nil:
		return r, err
	case info["role"] != "master":
		return r, fmt.Errorf("%w: the Redis server is a %s, which takes no writes and may lag: connect to its master (%s:%s), or by Sentinel",
			store.ErrPermanent, info["role"], info["master_host"], info["master_port"])
	}
	if err := c.judgeFile(ctx, n, info, warn); err != nil {
		return r, err
	}
	if err := c.judgeReplicas(ctx, n, info, warn); err != nil {
		return r, err
	}
	r.Expires = judgeMemory(info, warn)
	return r, nil
}

// judgeFile examines what a restart of the server keeps.
func (c *client) judgeFile(ctx context.Context, n *redis.Client, info map[string]string, warn func(bool, string, ...any)) error {
	if info["aof_enabled"] == "0" {
		warn(true, "keeps no append-only file: a restart forgets leaders, or goes back to older ones. Elections cool down before they promote;"+
			" with appendonly yes and appendfsync always they need no such wait.")
		return nil
	}
	for _, setting := range []struct{ name, wanted, meaning string }{
		{"appendonly", "yes", "a restart forgets leaders, or goes back to older ones"},
		{"appendfsync", "always", "a crash of its machine loses what it acknowledged last"},
		{"no-appendfsync-on-rewrite", "no", "a crash of its machine loses what it acknowledged while the file was rewritten"},
	} {
		got, err := n.ConfigGet(ctx, setting.name).Result()
		switch is, has := got[setting.name]; {
		case code(err) == "NOPERM":
			warn(true, "does not let the user run CONFIG GET, so that nothing is known of what a crash loses, and elections cool down before they promote. Permit CONFIG|GET.")
			return nil
		case code(err) != "" || err == nil && !has:
			warn(true, "does not report its setting %s, so the loss in a crash is unknown, and elections cool down before they promote.", setting.name)
		case err != nil:
			return err
		case is != setting.wanted:
			warn(true, "has the setting %s %s: %s. Elections cool down before they promote; with %s %s they need no such wait.",
				setting.name, is, setting.meaning, setting.name, setting.wanted)
		}
	}
	return nil
}

// judgeReplicas examines what a failover keeps, and whether there was one: a
// server that was promoted may have lost the record of who leads. It refuses
// servers of which two may acknowledge writes after a failover.
func (c *client) judgeReplicas(ctx context.Context, n *redis.Client, info map[string]string, warn func(bool, string, ...any)) error {
	replicas, _ := strconv.Atoi(info["connected_slaves"]) // 0 if it is missing
	sentinel := n.Options().Addr == "FailoverClient"      // go-redis, sentinel.go, clientOptions
	promoted := info["second_repl_offset"]                // redis, replication.c, shiftReplicationId
	if replicas > 0 || sentinel {
		demanded, err := demandedReplicas(ctx, n, info)
		if err != nil {
			return err
		}
		if err := c.allowReplicas(max(replicas, 1), demanded); err != nil {
			return err
		}
	}
	const wait = "Options.Wait (?wait=) has each write wait for the replicas."
	switch {
	case c.opts.Wait == 0 && replicas > 0:
		warn(true, "has %d replicas, and a failover to one of them loses writes that it does not have yet, and with them the leader that they name."+
			" Elections cool down before they promote; "+wait, replicas)
	case c.opts.Wait == 0 && sentinel:
		warn(true, "is found by Sentinel, which may put a replica in its place that lacks writes. Elections cool down before they promote; "+wait)
	case c.opts.Wait == 0 && promoted != "" && promoted != "-1":
		warn(true, "has taken another's place, and may lack writes that were acknowledged there. Elections cool down before they promote; "+wait)
	case c.opts.Wait > 0 && c.opts.Wait < replicas:
		warn(true, "has %d replicas, and writes wait for %d of them: a failover to another loses what it does not have."+
			" Elections cool down before they promote; wait for all of them.", replicas, c.opts.Wait)
	case c.opts.Wait > replicas:
		warn(false, "has %d connected replicas, and writes wait for %d: until there are so many, no leader can be elected or kept.", replicas, c.opts.Wait)
	}
	return nil
}

// allowReplicas refuses a master and its replicas if, when one replica was
// promoted, both it and the old master can have as many replicas as their
// writes need. The new master is one of the replicas, so that the two share the
// others.
func (c *client) allowReplicas(replicas, demanded int) error {
	if c.opts.Fenced || 2*max(c.opts.Wait, demanded) >= replicas {
		return nil
	}
	return fmt.Errorf("%w: the Redis server has replicas, of which one may be promoted while the server goes on (a network that parts them is enough),"+
		" and two lead for as long as both acknowledge writes: set Options.Wait (?wait=%d), or min-replicas-to-write %d on all servers;"+
		" where a guard turns a stale leader away (package fence), set Options.Fenced (?fenced=true)", store.ErrPermanent, replicas, (replicas+1)/2)
}

// demandedReplicas returns how many replicas the server itself demands for a
// write (min-replicas-to-write), as far as the user may know: one at least
// where INFO counts those that are good enough.
func demandedReplicas(ctx context.Context, n *redis.Client, info map[string]string) (int, error) {
	if _, counted := info["min_slaves_good_slaves"]; !counted {
		return 0, nil
	}
	got, err := n.ConfigGet(ctx, "min-replicas-to-write").Result()
	if err != nil && code(err) == "" {
		return 0, err
	}
	demanded, _ := strconv.Atoi(got["min-replicas-to-write"]) // 0 if it is missing
	return max(demanded, 1), nil
}

// judgeMemory examines what is evicted, and reports whether records may be.
// They have no expiry of Redis's, so only the policies for all keys meet them.
func judgeMemory(info map[string]string, warn func(bool, string, ...any)) (expires bool) {
	policy := info["maxmemory_policy"]
	switch limit := info["maxmemory"]; {
	case limit == "" || limit == "0":
		return false
	case strings.HasPrefix(policy, "allkeys-"):
		warn(false, "evicts any key when its %s bytes are full (maxmemory-policy %s), a leader's record as well."+
			" Elections cool down before they promote, unless a leader hands over; with noeviction, or a volatile policy, they need no such wait.", limit, policy)
		return true
	default:
		warn(false, "refuses writes when its %s bytes are full (maxmemory-policy %s): renewals are refused then, and leaders lost.", limit, policy)
		return false
	}
}

// facts reads the answer of INFO.
func facts(text string, err error) (map[string]string, error) {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			all[name] = value
		}
	}
	return all, err
}
