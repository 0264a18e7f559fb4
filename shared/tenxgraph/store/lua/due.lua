-- Threads whose moment has come, oldest first.
-- KEYS     zset: thread by the moment it is due, in ms; hash: thread → touch
-- ARGV     limit
-- Returns  {thread, touch, thread, touch, …}

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local found = {}

for _, thread in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  found[#found + 1] = thread
  found[#found + 1] = redis.call('HGET', KEYS[2], thread)
end
return found
