-- Threads whose moment has come, oldest first, and none of them again before a while has passed.
-- KEYS     zset: thread by the moment it is due, in ms; hash: thread → touch
-- ARGV     limit, put_off_ms: that while, 0 for none
-- Returns  {thread, touch, thread, touch, …}
-- Keeps    9: whoever asked and dies leaves threads that are due again.

local clock, put_off_ms = redis.call('TIME'), tonumber(ARGV[2])
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local again_at = string.format('%.0f', now + put_off_ms)
local found = {}

for _, thread in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])) do
  found[#found + 1] = thread
  found[#found + 1] = redis.call('HGET', KEYS[2], thread)
  if put_off_ms > 0 then
    redis.call('ZADD', KEYS[1], again_at, thread)
  end
end
return found
