"""What all processes together know of a tenant (D51), in Redis or Valkey.

    <prefix>:limits:<tenant>  HASH: `used` (creates and tokens that count still, and when that was
                              so), and for each owner what it holds, what of its counts is in
                              `used`, and when it last reported

An owner that has not reported for as long as a lease lasts is dead, and what it held is free. All
times are the engine's own; if its clock jumps back, nothing counts for longer than from anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.limits.store import WINDOW, Standing, Verdict
from steering.redis.answers import integers
from steering.redis.guard import RedisGuard
from steering.redis.lease import LEASE_TTL
from steering.redis.scripts import LuaScript

if TYPE_CHECKING:
    from gateway.limits.limits import Limits
    from gateway.limits.store import Report
    from steering.redis.guard import RedisClient

#: Creates and tokens are told in thousandths: an answer has no fractions.
_UNIT: Final = 1000

#: KEYS: the tenant. ARGV: owner, milliseconds that an owner lives and that a limit wears off in;
#: the limits of connections, running, creates and tokens, -1 for none; what the owner holds and has
#: counted; what of that is known; what it wants.
_REPORT: Final = LuaScript("""
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local given = {}
for i = 2, #ARGV do given[i] = tonumber(ARGV[i]) end
local life, window = given[2], given[3]
local most_connections, most_running, most_creates, most_tokens = unpack(given, 4, 7)
local connections, running, all_creates, all_tokens = unpack(given, 8, 11)
local known_creates, known_tokens, want_connections, want_creates = unpack(given, 12, 15)
local own_connections, own_running = connections, running
local creates, tokens, since = 0, 0, now
local kept = redis.call('HGETALL', KEYS[1])
for i = 1, #kept, 2 do
  local name, is = kept[i], {}
  for word in string.gmatch(kept[i + 1], '%S+') do is[#is + 1] = tonumber(word) end
  if name == 'used' then
    creates, tokens, since = is[1], is[2], is[3]
  elseif name == ARGV[1] then
    known_creates, known_tokens = is[3], is[4]
  elseif now - is[5] >= life then
    redis.call('HDEL', KEYS[1], name)
  else
    connections, running = connections + is[1], running + is[2]
    if is[5] > now then
      redis.call('HSET', KEYS[1], name, string.format(
        '%d %d %.0f %.0f %.0f', is[1], is[2], is[3], is[4], now))
    end
  end
end

local lasts = 0
local function counted(used, limit, more)
  if limit < 0 then return 0 end
  used = math.max(0, used - math.max(0, now - since) * limit / window)
  used = math.max(0, used + more)
  if limit > 0 then lasts = math.max(lasts, used * window / limit) end
  return used
end
creates = counted(creates, most_creates, all_creates - known_creates)
tokens = counted(tokens, most_tokens, all_tokens - known_tokens)

if most_connections >= 0 then
  want_connections = math.min(want_connections, most_connections - connections)
end
if most_running >= 0 then want_creates = math.min(want_creates, most_running - running) end
if most_creates >= 0 then
  want_creates = math.min(want_creates, math.floor(most_creates - creates))
end
if most_tokens >= 0 and tokens >= most_tokens then want_creates = 0 end
want_connections, want_creates = math.max(0, want_connections), math.max(0, want_creates)
if most_creates >= 0 then creates = creates + want_creates end

redis.call('HSET', KEYS[1], 'used', string.format('%.6f %.6f %.0f', creates, tokens, now),
  ARGV[1], string.format('%d %d %.0f %.0f %.0f', own_connections + want_connections,
  own_running + want_creates, all_creates + want_creates, all_tokens, now))
redis.call('PEXPIRE', KEYS[1], math.ceil(math.min(lasts, 86400000) + window + life))
return {want_connections, want_creates, connections + want_connections, running + want_creates,
  math.ceil(creates * 1000), math.ceil(tokens * 1000)}
""")


class RedisLimitStore:
    """A LimitStore on an engine. Each report is one script: one round trip, one atomic step.

    Args:
        client: The engine; its maker closes it.
        ttl: Seconds after which an owner that says nothing is dead.
        prefix: What all keys begin with.
        guard: Makes the calls; one of its own if there is none.
    """

    shared = True

    def __init__(
        self,
        client: RedisClient,
        *,
        ttl: float = LEASE_TTL,
        prefix: str = "multilane",
        guard: RedisGuard | None = None,
    ) -> None:
        self._client = client
        self._ttl = max(1, round(ttl * 1000))
        self._prefix = prefix
        self._guard = guard or RedisGuard(client)

    async def report(self, tenant: str, owner: str, limits: Limits, report: Report) -> Verdict:
        """Take a report in (see `LimitStore.report`)."""
        bounds = (limits.connections, limits.running, limits.creates, limits.tokens)
        args: list[str | bytes | int] = [owner, self._ttl, round(WINDOW * 1000)]
        args += [-1 if bound is None else bound for bound in bounds]
        args += [report.connections, report.running, report.creates, report.tokens]
        args += [report.known_creates, report.known_tokens]
        args += [report.wanted_connections, report.wanted_creates]
        key = f"{self._prefix}:limits:{tenant}"

        async def ask() -> Any:
            return integers(await _REPORT.run(self._client, [key], args), 6)

        answer = await self._guard.run(ask, tenant)
        standing = Standing(answer[2], answer[3], answer[4] / _UNIT, answer[5] / _UNIT)
        return Verdict(answer[0], answer[1], standing)
