-- Re-scores or removes a due thread, unless it was touched since.
-- KEYS     zset: thread by the moment it is due, in ms; hash: thread → touch
-- ARGV     thread, touch as it was read, next moment or ''
-- Keeps    9: a moment that somebody asked for meanwhile is not lost.

if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return
end
if ARGV[3] ~= '' then
  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end
