-- Finds what an answer was given to.
-- KEYS[1]  base key of the thread
-- ARGV     resume_id
-- Returns  {run, digest, id of the last event before}, or nothing

local id = ARGV[1]

local digest, taker = open(key('resumes'))[id]:match('^([^:]*):(.*)$')
if not taker then
  return false
end
return { taker, digest, run_of(taker)['resumed:' .. id]:sub(2) }
