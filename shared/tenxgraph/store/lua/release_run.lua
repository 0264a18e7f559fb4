-- Takes one reservation of a run id back: the run was refused. Another caller's reservation keeps the id.
-- KEYS[1]  hash: run id → "<times reserved>:<thread>"
-- ARGV     run, thread

local times, thread = (redis.call('HGET', KEYS[1], ARGV[1]) or '0:'):match('^(%d+):(.*)$')

if thread == ARGV[2] and tonumber(times) > 1 then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f:', times - 1) .. thread)
elseif thread == ARGV[2] then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
