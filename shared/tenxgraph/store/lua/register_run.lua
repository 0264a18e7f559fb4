-- Reserves a run id for a thread, before the run is admitted there.
-- KEYS[1]  hash: run id → "<times reserved>:<thread>"
-- ARGV     run, thread
-- Returns  {the thread that the id belongs to, now in ms}
-- Keeps    6 (a run id is unique in the store).

local times, thread = (redis.call('HGET', KEYS[1], ARGV[1]) or '0:' .. ARGV[2]):match('^(%d+):(.*)$')

if thread == ARGV[2] then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f:', times + 1) .. thread)
end
local clock = redis.call('TIME')
return { thread, string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000)) }
