package redisstore

import (
	"crypto/sha1" //nolint:gosec // it is the name that Redis gives to scripts, and protects nothing
	"encoding/hex"
)

// A script runs on the server, as one step between other commands.
type script struct{ text, name string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return script{text, hex.EncodeToString(sum[:])}
}

// The words with which a script's answer begins.
const (
	applied  = "applied"  // the revision, and why the write could not be published, or ""
	conflict = "conflict" // the register's revision
	refused  = "refused"  // the error of a command that had no effect
	shown    = "shown"    // the record
	absent   = "absent"
)

// prelude begins each script. at is the revision of the register, "0" of a
// register that does not exist, and nil of content that is not a record; fail
// hands on the error of a command. A server that is not a master answers with
// its own error, by which the client knows to look for another.
const prelude = `
local function fail(answer)
	local text = string.gsub(answer.err, '^-', '')
	if string.find(text, '^READONLY') or string.find(text, '^MASTERDOWN') then
		return redis.error_reply(text)
	end
	return {'refused', text}
end
local content = redis.pcall('GET', KEYS[1])
if type(content) == 'table' then return fail(content) end
local at = '0'
if content then
	at = string.match(content, '^leader/1 ([1-9]%d*) live\n') or string.match(content, '^leader/1 ([1-9]%d*) tombstone\n')
	if at and tonumber(at) >= 9007199254740991 then at = nil end
end
local function later(than)
	local now = redis.pcall('TIME')
	if now.err then return nil, now end
	return string.format('%.0f', math.max(than + 1, now[1] * 1000000 + now[2]))
end
`

// swap is a compare-and-swap: KEYS[1] is the register, ARGV the expected
// revision, the kind, the value and the channel. The write is one command,
// which either replaces the record or does nothing, and nothing that follows it
// may fail the script: a caller that gets an error may conclude that nothing
// was written.
const swap = prelude + `
if at ~= ARGV[1] then return {'conflict', at or 'unknown'} end
local revision, failed = later(tonumber(at))
if failed then return fail(failed) end
local record = 'leader/1 ' .. revision .. ' ' .. ARGV[2] .. '\n' .. ARGV[3]
local written = redis.pcall('SET', KEYS[1], record)
if written.err then return fail(written) end
local told = redis.pcall('PUBLISH', ARGV[4], record)
return {'applied', revision, type(told) == 'table' and told.err or ''}
`

// adopt gives a revision to content that is not a record, and keeps the content
// and its expiry: KEYS[1] is the register, ARGV[1] the channel. PTTL is
// negative for a key that never expires, and 0 for a key in its last
// millisecond, which SET does not take.
const adopt = prelude + `
if not content then return {'absent'} end
if at then return {'shown', content} end
local revision, failed = later(0)
if failed then return fail(failed) end
local left = redis.pcall('PTTL', KEYS[1])
if type(left) == 'table' then return fail(left) end
local record = 'leader/1 ' .. revision .. ' live\n' .. content
local written
if left >= 0 then
	written = redis.pcall('SET', KEYS[1], record, 'PX', math.max(left, 1))
else
	written = redis.pcall('SET', KEYS[1], record)
end
if written.err then return fail(written) end
redis.pcall('PUBLISH', ARGV[1], record)
return {'shown', record}
`

// examine names the commands that the user may not run on the register, which
// is KEYS[1], and its channel, ARGV[1]. A server before 7.0 cannot check this.
const examine = `
if not redis.acl_check_cmd then return {} end
local denied = {}
for _, command in ipairs({{'GET', KEYS[1]}, {'SET', KEYS[1], ''}, {'TIME'}, {'PUBLISH', ARGV[1], ''}, {'SUBSCRIBE', ARGV[1]}}) do
	if not redis.acl_check_cmd(unpack(command)) then denied[#denied + 1] = command[1] end
end
return denied
`
