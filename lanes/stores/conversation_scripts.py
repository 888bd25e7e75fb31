"""The Lua scripts that keep conversations in Redis, each with one key.

A conversation is a list: its object, packed; the bytes of its items; the tokens of its latest
additions, the latest first; then a dot with the id and the packed item, for each item.
"""

from __future__ import annotations

from typing import Final

from steering.redis.scripts import LuaScript

#: What a script answers that returns nothing else.
DONE: Final = b"ok"
#: What they answer where the conversation is not there, the item is not, and there is no room.
GONE: Final = b"gone"
UNKNOWN: Final = b"unknown"
FULL: Final = b"full"
#: Elements before the items.
HEAD: Final = 3

#: Note a conversation among those of its key, unless there are too many. KEYS: index. ARGV: now,
#: when it ends, its id, how many there may be, TTL in seconds.
NOTE: Final = LuaScript("""
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if not redis.call('ZSCORE', KEYS[1], ARGV[3])
    and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then
  return 'full'
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 'ok'
""")

#: Note that a conversation ends later. KEYS: index. ARGV: when it ends, its id, TTL in seconds.
PROLONG: Final = LuaScript("""
redis.call('ZADD', KEYS[1], 'XX', ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 'ok'
""")

#: Begin a conversation. KEYS: conversation. ARGV: TTL in seconds, then its elements.
BEGIN: Final = LuaScript("""
if redis.call('EXISTS', KEYS[1]) == 0 then
  for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return 'ok'
""")

#: Replace the object. KEYS: conversation. ARGV: TTL in seconds, object.
REWRITE: Final = LuaScript("""
if redis.call('EXISTS', KEYS[1]) == 0 then return 'gone' end
redis.call('LSET', KEYS[1], 0, ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 'ok'
""")

#: Add items. KEYS: conversation. ARGV: TTL in seconds, token, the items' bytes, how many items and
#: bytes there may be then, then a dot with the id and the item for each.
ADD: Final = LuaScript("""
local bytes = tonumber(redis.call('LINDEX', KEYS[1], 1))
if not bytes then return 'gone' end
local tokens, token = redis.call('LINDEX', KEYS[1], 2), '.' .. ARGV[2]
if string.find(tokens, token, 1, true) then return 'ok' end
bytes = bytes + tonumber(ARGV[3])
local items = (redis.call('LLEN', KEYS[1]) - 3 + #ARGV - 5) / 2
if items > tonumber(ARGV[4]) or bytes > tonumber(ARGV[5]) then return 'full' end
redis.call('LSET', KEYS[1], 1, string.format('%.0f', bytes))
redis.call('LSET', KEYS[1], 2, string.sub(token .. tokens, 1, 1024))
for i = 6, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 'ok'
""")

#: Return elements of some items. KEYS: conversation. ARGV: the item that they follow, or nothing;
#: how many; `asc` or `desc`.
LIST: Final = LuaScript("""
local length = redis.call('LLEN', KEYS[1])
if length == 0 then return 'gone' end
local first, last = 3, length - 1
if ARGV[1] ~= '' then
  local at = redis.call('LPOS', KEYS[1], ARGV[1])
  if not at then return 'unknown' end
  first, last = at + 2, at - 1
end
local count = 2 * tonumber(ARGV[2])
if ARGV[3] == 'asc' then
  last = math.min(first + count, length) - 1
else
  first = math.max(last - count + 1, 3)
end
if last < first then return {} end
return redis.call('LRANGE', KEYS[1], first, last)
""")

#: Return an item. KEYS: conversation. ARGV: a dot with the id.
FIND: Final = LuaScript("""
local at = redis.call('LPOS', KEYS[1], ARGV[1])
return at and redis.call('LINDEX', KEYS[1], at + 1)
""")

#: Take an item out, if it is there. KEYS: conversation. ARGV: TTL in seconds, a dot with the id,
#: the item's bytes.
REMOVE: Final = LuaScript("""
local at = redis.call('LPOS', KEYS[1], ARGV[2])
if at then
  redis.call('LSET', KEYS[1], at, '')
  redis.call('LSET', KEYS[1], at + 1, '')
  redis.call('LREM', KEYS[1], 2, '')
  local bytes = tonumber(redis.call('LINDEX', KEYS[1], 1)) - tonumber(ARGV[3])
  redis.call('LSET', KEYS[1], 1, string.format('%.0f', bytes))
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return 'ok'
""")
