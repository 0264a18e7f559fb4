-- Removes all that belongs to a thread, but the list of its runs: it stays until they are forgotten outside.
-- KEYS[1]  base key of the thread
-- ARGV     idle_ms: only if the thread was at rest for that long; 0 for any
-- Returns  {1 if there was a thread, ids of its runs}, or nothing while a run is active or queued, or the rest was shorter
-- Keeps    12 (nothing is left), 6 (a repeat finds the list).

local idle_ms = num(ARGV[1])
local ids, existed = redis.call('LRANGE', key('runs'), 0, -1), thread.created_ms ~= ''
local is_too_fresh = idle_ms > 0 and rested_since() > now - idle_ms -- a clock set back makes a thread no younger for a person

if thread.active ~= '' or #inbox() > 0 or redis.call('ZCARD', key('delayed')) > 0 or is_too_fresh then
  return false
end
for _, number in ipairs(redis.call('HKEYS', key('bases'))) do
  redis.call('UNLINK', key('base', number))
end
for _, noun in ipairs({ 'thread', 'state', 'changed', 'lists', 'checkpoints', 'bases', 'resumes', 'effects', 'media' }) do
  redis.call('UNLINK', key(noun))
end
for _, name in ipairs(redis.call('SMEMBERS', key('generations'))) do
  redis.call('UNLINK', key('list', name))
end
redis.call('UNLINK', key('generations'))
for _, id in ipairs(ids) do
  for _, noun in ipairs({ 'run', 'tasks', 'updates', 'interrupts', 'outcomes', 'events' }) do
    redis.call('UNLINK', key(noun, id))
  end
end
return { existed and 1 or 0, ids }
