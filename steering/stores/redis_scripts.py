"""The Lua scripts that write submissions to Redis; each can run again after a lost reply.

Each returns DONE, so that an answer by anything but the script is noticed.
"""

from __future__ import annotations

from typing import Final

from steering.redis.scripts import LuaScript

#: What a script answers once it has written.
DONE: Final = b"ok"

#: Add a submission, or move one on that is there. A record that holds an early verdict keeps it.
#: KEYS: the response's list, the record. ARGV: TTL in ms, submission id, response id, the fixed
#: part, the states it may come from, then each changing field before its value.
APPEND: Final = LuaScript("""
local was = redis.call('HMGET', KEYS[2], 'fixed', 'state')
if not was[1] then
  local to = was[2] and 0 or #ARGV
  redis.call('HSET', KEYS[2], 'target', ARGV[3], 'fixed', ARGV[4], unpack(ARGV, 6, to))
  redis.call('RPUSH', KEYS[1], ARGV[2])
elseif string.find(ARGV[5], '|' .. was[2] .. '|', 1, true) then
  redis.call('HSET', KEYS[2], unpack(ARGV, 6))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 'ok'
""")

#: Move submissions on. KEYS: the response's list, the records. ARGV: TTL in ms, response id, 1 if
#: the new state is an end, the states they may come from, the response that they were taken for or
#: an empty string, then each changing field before its value.
SETTLE: Final = LuaScript("""
for i = 2, #KEYS do
  local was = redis.call('HMGET', KEYS[i], 'target', 'state')
  local early = not was[2] and ARGV[3] == '1'
  if early then redis.call('HSET', KEYS[i], 'target', ARGV[2]) end
  if early or was[1] == ARGV[2] and string.find(ARGV[4], '|' .. was[2] .. '|', 1, true) then
    redis.call('HSET', KEYS[i], unpack(ARGV, 6))
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
  end
  if ARGV[5] ~= '' and (early or was[1] == ARGV[2]) then
    redis.call('HSET', KEYS[i], 'effective', ARGV[5])
  end
end
return 'ok'
""")
