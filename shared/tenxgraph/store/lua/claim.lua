-- Takes a task for an attempt.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, attempt, nonce, worker, lease_ms, events, suspect_pause_ms (0 when a suspect is welcome), then
--          what the caller knows of the state (known_from)
-- Returns  the claim (claim_reply), or the reason of the refusal
-- Keeps    4 (the nonce becomes the token), 6 (a repeat under the nonce has the claim again), 10 (a process holds one
--          suspect at a time), 13.

local id, step, name, attempt, nonce, worker, lease_ms, events, suspect_pause_ms = unpack(ARGV, 1, 9)

local task, reason = find(id, step, name)
if not task then
  return reason
end
if task.status ~= 'claimed' or task.token ~= nonce then
  if task.status ~= 'queued' or task.attempt ~= attempt then
    return 'taken or given up'
  end
  if num(suspect_pause_ms) > 0 and num(task.deaths) > 0 then
    put_aside(id, task, 'suspect', suspect_pause_ms, 4)
    save()
    return 'taken or given up'
  end
  take(id, task, nonce, worker, lease_ms, events)
  save()
end
return claim_reply(id, task, known_from(10))
