-- Removes all that belongs to a thread, but the list of its runs: it stays until they are forgotten outside.
-- KEYS[1]  base key of the thread
-- Returns  the ids of its runs (none when nothing is there), or nothing while a run is active or queued
-- Keeps    12 (nothing is left), 6 (a repeat finds the list).

local ids = redis.call('LRANGE', key('runs'), 0, -1)

if thread.active ~= '' or #inbox() > 0 or redis.call('ZCARD', key('delayed')) > 0 then
  return false
end
for _, noun in ipairs({ 'thread', 'state', 'changed', 'lists', 'checkpoints', 'resumes', 'effects', 'media' }) do
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
return ids
