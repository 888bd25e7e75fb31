"""The Lua scripts that keep stored responses in Redis.

Each has one key and can run again after a lost reply. A branch is a list with two elements for each
response: a mark and the id, then the packed items. Marks: `.` plain, `+` another branch forks off
here, `-` deleted. The last mark is never `-`: items that nothing builds on go, and items that a
fork builds on stay.
"""

from __future__ import annotations

from typing import Final

from steering.redis.scripts import LuaScript

#: What a script answers that returns nothing else.
DONE: Final = b"ok"
#: What APPEND answers where the parent is not there, and where another response follows it already.
GONE: Final = b"gone"
FORK: Final = b"fork"

#: Open a branch. KEYS: branch. ARGV: life in milliseconds, then a mark with an id and the items of
#: each response that it begins with.
OPEN: Final = LuaScript("""
if redis.call('EXISTS', KEYS[1]) == 0 then
  for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 'ok'
""")

#: Append a response to its parent's branch. KEYS: branch. ARGV: the parent's id and position, the
#: new id, items. Returns `gone`, `fork` or `ok`, and the milliseconds that the branch is kept.
APPEND: Final = LuaScript("""
local at = 2 * tonumber(ARGV[2])
local parent = redis.call('LINDEX', KEYS[1], at)
if not parent or string.sub(parent, 2) ~= ARGV[1] then return {'gone', 0} end
local child = redis.call('LINDEX', KEYS[1], at + 2)
local outcome = 'ok'
if not child then
  redis.call('RPUSH', KEYS[1], '.' .. ARGV[3], ARGV[4])
elseif string.sub(child, 2) ~= ARGV[3] then
  redis.call('LSET', KEYS[1], at, '+' .. ARGV[1])
  outcome = 'fork'
end
return {outcome, redis.call('PTTL', KEYS[1])}
""")

#: Delete a response's items, or mark them while others still follow them. KEYS: branch.
#: ARGV: id, position.
DROP: Final = LuaScript("""
local at = 2 * tonumber(ARGV[2])
if redis.call('LINDEX', KEYS[1], at) ~= '.' .. ARGV[1] then return 'ok' end
redis.call('LSET', KEYS[1], at, '-' .. ARGV[1])
local last = redis.call('LINDEX', KEYS[1], -2)
while last and string.sub(last, 1, 1) == '-' do
  redis.call('LTRIM', KEYS[1], 0, -3)
  last = redis.call('LINDEX', KEYS[1], -2)
end
return 'ok'
""")

#: Enter a response unless it is there or was deleted meanwhile; returns its location. KEYS:
#: response. ARGV: location, object, TTL in seconds.
ENTER: Final = LuaScript("""
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'at', ARGV[1], 'body', ARGV[2])
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return redis.call('HEXISTS', KEYS[1], 'body') == 1 and redis.call('HGET', KEYS[1], 'at')
""")

#: Forget a response; returns its location, also when asked again with the same token. KEYS:
#: response. ARGV: token, TTL in seconds of the note that it is gone.
FORGET: Final = LuaScript("""
local at = redis.call('HGET', KEYS[1], 'at')
local gone = redis.call('HGET', KEYS[1], 'gone')
if not at or (gone and gone ~= ARGV[1]) then return false end
redis.call('HDEL', KEYS[1], 'body')
redis.call('HSET', KEYS[1], 'gone', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return at
""")
