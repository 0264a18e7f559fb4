-- Gives a call its turn in the line of a rate limit: as many turns as allowed in any period, first come, first served.
-- KEYS     zset: nonce by the moment of its turn, in ms
-- ARGV     nonce, limit, period_ms
-- Returns  in how many ms it is its turn, 0 from then on
-- Keeps    6 (a nonce has one turn), 13. The line ends by itself.

local KEPT_MS = 60000
local nonce, limit, period_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local turn = tonumber(redis.call('ZSCORE', KEYS[1], nonce) or '')
if not turn then
  local before = redis.call('ZRANGE', KEYS[1], -limit, -limit, 'WITHSCORES')[2]
  turn = math.max(now, (tonumber(before) or -period_ms) + period_ms)
  redis.call('ZADD', KEYS[1], string.format('%.0f', turn), nonce)
  local oldest = redis.call('ZRANGE', KEYS[1], -limit, -limit, 'WITHSCORES')[2]
  if oldest then
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', math.min(oldest, now - KEPT_MS)))
  end
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', turn - now + period_ms + KEPT_MS))
end
return math.max(turn - now, 0)
