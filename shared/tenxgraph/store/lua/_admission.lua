-- Prelude of scripts that let a run in: what it does about the run that has the thread. Memory: memory_multitask.py.
-- Keeps  1, 4 (whoever is undone has no tasks left, and no tokens), 7, 9.
-- VERDICTS is the table of core/graph/multitask.py: ",input/occupancy/strategy=verdict,".

local function occupancy()
  local id = thread.active
  if id == '' then
    return thread.continuable == '' and thread.ready == '' and 'free' or 'continuable'
  end
  local run = run_of(id)
  if run.status == 'waiting' then
    return run.wait == 'question' and 'question' or 'pause'
  end
  return (run.status == 'queued' or run.status == 'running') and run.status or 'stopping'
end

local function verdict_on(input, strategy)
  return VERDICTS:match(',' .. input .. '/' .. occupancy() .. '/' .. strategy .. '=(%a+),')
end

local function cancel_waiting(id, reason)
  run_of(id).reason = reason
  finish_waiting(id, 'cancelled')
end

local function push(id)
  table.insert(inbox(), id)
  write('list', 'RPUSH', key('inbox'), id)
end

local function cancel_active(reason)
  local id = thread.active
  run_of(id).reason = reason
  finish(id, 'cancelled')
end

-- All that the run changed is changed back, by a version that is newer than any.
local function undo_active(by)
  local id = thread.active
  local run = run_of(id)
  if num(run.base) ~= num(thread.version) then
    return_to(run.base, run_of(by).nonce, id, run.step, 'cancelled', '')
  end
  cancel_active('rolled back by ' .. by)
end

-- Whatever came before makes room: the queue at once, the active run as the verdict says. The end of it starts this one.
local function supersede(id, verdict)
  while inbox()[1] do
    cancel_waiting(inbox()[1], 'superseded by ' .. id)
  end
  push(id)
  if verdict == 'undo' then
    undo_active(id)
  elseif verdict == 'replace' then
    cancel_active('superseded by ' .. id)
  else
    run_of(thread.active).superseded = id
    if run_of(thread.active).stop == '' then
      stop_active(thread.active)
    end
  end
end

local function take_in(id, verdict)
  if verdict == 'start' or verdict == 'fail' then
    start(id)
  elseif verdict == 'queue' then
    push(id)
  elseif verdict == 'reject' then
    cancel_waiting(id, 'rejected: run ' .. thread.active .. ' was active')
  else
    supersede(id, verdict)
  end
end
