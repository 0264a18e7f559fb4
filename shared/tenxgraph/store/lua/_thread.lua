-- Prelude, part 2: the moves of a thread's runs. The in-memory store has the same ones (memory_thread.py).
-- Keeps  1: only start() makes a run active, and only when none is.  2, 4: a task is found by run, step and token.
--        8: an answer stays beside its question until the task that asked is committed.  9: finish() starts the next run.

local PLAN = 'plan'
local CONTINUABLE = { failed = true, stopped = true, dead = true }
local COMMITTED = { committed = true }
local SETTLED = { waiting = true, parked = true, committed = true, failed = true }

local thread = open(key('thread'))
local queued = {} -- tasks of the active run that this script made ready

local function run_of(id)
  return open(key('run', id))
end

-- The one place where a status changes. MOVES is the table of core/graph/run_status.py: ",from>to,from>to,".
local function set_status(run, to)
  if run.status == to and run.ended_ms == '' then
    return
  end
  if not MOVES:find(',' .. run.status .. '>' .. to .. ',', 1, true) then
    error('a run does not go from ' .. run.status .. ' to ' .. to, 0)
  end
  run.status = to
end

-- A task is the fields "<name>:<attribute>" of its run's tasks; its status is '' when there is none.
local Task = {
  __index = function(task, attribute)
    return rawget(task, OWN)[task.name .. ':' .. attribute]
  end,
  __newindex = function(task, attribute, value)
    rawget(task, OWN)[task.name .. ':' .. attribute] = value
  end,
}

local function tasks_of(id)
  return open(key('tasks', id))
end

local function task_of(id, name)
  return setmetatable({ [OWN] = tasks_of(id), name = name }, Task)
end

-- An effect is the fields "<name>:<attribute>" of the thread's effects: nonces it was ever granted under, holder (the
-- last of them, '' once released), run and until of the last reservation; done_by and result once it is done.
local function effect_of(name)
  return setmetatable({ [OWN] = open(key('effects')), name = name }, Task)
end

-- Names of the step's tasks, in plan order; the plan task comes last.
local function names_of(id)
  local names = {}
  for name in tasks_of(id).order:gmatch('[^\n]+') do
    names[#names + 1] = name
  end
  return names
end

-- The step's tasks as a list, with their statuses read at once.
local function list_of(names, id)
  local fields, tasks = {}, {}
  for i, name in ipairs(names) do
    fields[i], tasks[i] = name .. ':status', task_of(id, name)
  end
  fetch(tasks_of(id), fields)
  return tasks
end

local function node_names_of(id)
  local names = names_of(id)
  if names[#names] == PLAN then
    names[#names] = nil
  end
  return names
end

-- Looks at the last ones first: in a wide step they are the ones that still run.
local function all_are(statuses, names, id)
  for i = #names, 1, -1 do
    if not statuses[task_of(id, names[i]).status] then
      return false
    end
  end
  return true
end

-- The task that a message names, or nil and the reason.
local function find(id, step, name)
  if thread.active ~= id then
    return nil, 'the run does not own the thread'
  end
  local task = task_of(id, name)
  if task.status == '' or num(run_of(id).step) ~= num(step) then
    return nil, 'the step is over'
  end
  return task
end

local function queue(task, attempt)
  task.status, task.dispatched, task.resends = 'queued', now, ''
  task.attempt = attempt or task.attempt
  queued[#queued + 1] = task.name
end

local function park(task)
  task.status, task.token = 'parked', ''
end

-- The messages for those of the active run's tasks that are ready.
local function dispatch(names)
  local id = thread.active
  if id == '' or #names == 0 then
    return {}
  end
  local run = run_of(id)
  local messages = { id, run.step, run.graph, run.graph_version, thread.version, thread.nonce }
  for _, name in ipairs(names) do
    local task = task_of(id, name)
    if task.status == 'queued' then
      for _, attribute in ipairs({ 'name', 'attempt', 'node', 'queue', 'priority' }) do
        messages[#messages + 1] = task[attribute]
      end
    end
  end
  return messages
end

local function dispatch_all()
  return dispatch(thread.active == '' and {} or names_of(thread.active))
end

-- The messages of the run that started when this one ended.
local function freed_by(id)
  return thread.last == id and thread.active ~= id and dispatch_all() or {}
end

-- Ready-made messages, for the lists of the broker that are this server's: KEYS[2] and the following. From
-- ARGV[first] on there is for each list their number, then they. A key that is no list is left to the publisher, who
-- says so: it must not hold up a step.
local function can_post()
  for i = 2, #KEYS do
    local found = redis.call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= 'list' then
      return false
    end
  end
  return #KEYS > 1
end

local function post(first)
  for i = 2, #KEYS do
    local last = first + num(ARGV[first])
    for from = first + 1, last, CHUNK do
      write('list', 'LPUSH', KEYS[i], unpack(ARGV, from, math.min(from + CHUNK - 1, last)))
    end
    first = last + 1
  end
end

-- How an attempt ended, kept beyond its step: a repeat has the same answer.
local function outcomes_of(id)
  return open(key('outcomes', id))
end

-- Whoever speaks under a token did not die with it: the death that was counted when its lease ran out is taken back.
local function hear_fenced(id, step, name, token)
  local outcomes, field = outcomes_of(id), name .. ':' .. token
  if outcomes[field] ~= 'died' then
    return
  end
  outcomes[field] = 'lived'
  local task = find(id, step, name)
  if task and num(task.deaths) > 0 then
    task.deaths = num(task.deaths) - 1
  end
  save()
end

local function add_events(id, body)
  if body ~= '' then
    write('stream', 'XADD', key('events', id), 'MAXLEN', '~', STREAM_MAX_LEN, '*', 'body', body)
  end
end

local function add_run_end(id)
  local run = run_of(id)
  local event = '{"event":"run_end","step":%.0f,"data":{"status":"%s"}}'
  add_events(id, event:format(num(run.step), run.status))
end

local function wait(id, kind)
  local run = run_of(id)
  set_status(run, 'waiting')
  run.wait = kind
  add_run_end(id)
end

-- A fresh plan task beside the step's tasks: "start", "resume" or "advance" as the run brought it.
local function new_plan(id, move_name)
  local run, tasks, task = run_of(id), tasks_of(id), task_of(id, PLAN)
  if task.status == '' then
    tasks.order = tasks.order == '' and PLAN or tasks.order .. '\n' .. PLAN
  end
  for _, attribute in ipairs({ 'node', 'queue', 'priority', 'body' }) do
    task[attribute] = run[move_name .. ':' .. attribute]
  end
  for _, attribute in ipairs({ 'token', 'worker', 'until', 'deaths', 'lost', 'given_back', 'first', 'error', 'leaving', 'emitted' }) do
    task[attribute] = ''
  end
  task.attempt = 1
  return task
end

-- Nothing of the old step is left to run: ask on, advance, or take up a pause.
local function take_up(id)
  local names = node_names_of(id)
  for _, task in ipairs(list_of(names, id)) do
    if task.status == 'waiting' then
      return wait(id, 'question')
    end
  end
  queue(new_plan(id, #names > 0 and 'advance' or 'resume'))
end

local function take_over(id, old_id)
  local run, old = run_of(id), run_of(old_id)
  run.continues, run.origin = old_id, old.origin == '' and old_id or old.origin
  for _, field in ipairs({ 'step', 'plan', 'wait', 'input', 'asked' }) do
    run[field] = old[field]
  end
  run.first_step = old.step
  for _, noun in ipairs({ 'tasks', 'updates', 'interrupts' }) do
    move(key(noun, old_id), key(noun, id))
  end
  local names = names_of(id)
  local has_plan = names[#names] == PLAN -- beside it all tasks are committed, or parked until it has planned them anew
  for _, task in ipairs(list_of(has_plan and { PLAN } or names, id)) do
    if task.status == 'failed' or task.status == 'parked' then
      task.deaths, task.lost, task.given_back, task.first = '', '', '', ''
      queue(task, 1)
    end
  end
  if #queued == 0 then
    take_up(id)
  end
end

-- The next tasks of a version, as its checkpoint keeps them: name, node, queue, priority, body, one task after the other.
local function unpacked(raw)
  local parts, at = {}, 1
  while at <= #raw do
    local first, last, size = raw:find('^(%d+):', at)
    parts[#parts + 1] = raw:sub(last + 1, last + num(size))
    at = last + num(size) + 1
  end
  return parts
end

-- The fields of a checkpoint, or nil when it is not there.
local function checkpoint_at(number)
  local entry_id, fields = text(num(number)) .. '-0', {}
  local entry = num(number) > 0 and redis.call('XRANGE', key('checkpoints'), entry_id, entry_id)[1]
  for i = 1, entry and #entry[2] or 0, 2 do
    fields[entry[2][i]] = entry[2][i + 1]
  end
  return entry and fields or nil
end

-- A run begins where a checkpoint stands, with an attempt of its own at each of the next tasks.
local function take_checkpoint(id, number)
  local was = checkpoint_at(number)
  local run, parts, names = run_of(id), unpacked(was.tasks), {}
  run.step, run.first_step, run.plan, run.wait = was.step, was.step, was.plan, was.wait
  for i = 1, #parts, 5 do
    local task = task_of(id, parts[i])
    task.node, task.queue, task.priority, task.body = unpack(parts, i + 1, i + 4)
    names[#names + 1] = task.name
    queue(task, 1)
  end
  tasks_of(id).order = table.concat(names, '\n')
  if #names == 0 then
    queue(new_plan(id, 'resume'))
  end
end

local function drop_step(id)
  for _, noun in ipairs({ 'tasks', 'updates', 'interrupts' }) do
    clear(open(key(noun, id)))
  end
end

local waiting_runs

local function inbox()
  waiting_runs = waiting_runs or redis.call('LRANGE', key('inbox'), 0, -1)
  return waiting_runs
end

local start

local function start_next()
  local id = table.remove(inbox(), 1)
  if id then
    write('list', 'LPOP', key('inbox'))
    start(id)
  end
end

local function close_run(id, status, err)
  local run = run_of(id)
  set_status(run, status)
  run.ended_ms = now
  run.error = err ~= '' and err or run.error
  add_run_end(id)
  write('stream', 'PEXPIRE', key('events', id), STREAM_KEEP_MS)
  write('hash', 'PEXPIRE', key('outcomes', id), STREAM_KEEP_MS)
end

-- Ends the active run, fences its step and starts the next one.
local function finish(id, status, err)
  local by = run_of(id).superseded
  thread.active, thread.last, thread.idle_ms, queued = '', id, now, {}
  if status == 'stopped' and by ~= '' then
    run_of(id).reason = 'superseded by ' .. by
  end
  if CONTINUABLE[status] then
    thread.continuable = id
    for _, task in ipairs(list_of(names_of(id), id)) do
      if not SETTLED[task.status] then
        park(task)
      end
    end
  else
    drop_step(id)
  end
  close_run(id, status, err or '')
  start_next()
end

-- Ends a run that still waits for the thread.
local function finish_waiting(id, status, err)
  for i, waiting_id in ipairs(inbox()) do
    if waiting_id == id then
      table.remove(inbox(), i)
      break
    end
  end
  write('list', 'LREM', key('inbox'), 1, id)
  write('zset', 'ZREM', key('delayed'), id)
  close_run(id, status, err or '')
end

function start(id)
  local run, parked, ready = run_of(id), thread.continuable, thread.ready
  if run.kind == 'continue' and parked == '' and ready == '' then
    run.reason = 'nothing to continue'
    close_run(id, 'failed', '')
    return start_next()
  end
  thread.active, thread.graph_version, thread.continuable, thread.ready, queued = id, run.graph_version, '', '', {}
  run.version, run.journal = thread.version, thread.journal
  run.base = run.base ~= '' and run.base or thread.version -- one that goes back began before it did
  run.deadline_ms = num(run.timeout_ms) > 0 and now + run.timeout_ms or ''
  add_events(id, run.events)
  run.events = ''
  if run.kind == 'continue' and parked == '' then
    return take_checkpoint(id, ready)
  elseif run.kind == 'continue' then
    return take_over(id, parked)
  end
  if parked ~= '' then
    drop_step(parked)
  end
  queue(new_plan(id, 'start'))
end

-- Since when nothing happened on the thread.
local function rested_since()
  return math.max(num(thread.idle_ms), num(thread.changed_ms))
end

-- Ends or pauses the run when its step has nothing left to run and cannot advance.
local function close_step(id)
  local first, names = {}, names_of(id)
  if not all_are(SETTLED, names, id) then
    return
  end
  for _, task in ipairs(list_of(names, id)) do
    first[task.status] = first[task.status] or task
  end
  if first.failed then
    finish(id, 'failed', first.failed.error)
  elseif run_of(id).stop ~= '' and not all_are(COMMITTED, names, id) then
    finish(id, 'stopped')
  elseif first.waiting then
    wait(id, 'question')
  end
end

local function is_in_flight(tasks)
  for _, task in ipairs(tasks) do
    if task.status == 'claimed' or task.status == 'committed' then
      return true
    end
  end
  return false
end

-- Lets the step in flight commit and plans no further; ends the run at once when none is.
local function stop_active(id)
  local run, tasks = run_of(id), list_of(names_of(id), id)
  run.stop = 'stop'
  if run.status == 'waiting' or not is_in_flight(tasks) then
    return finish(id, 'stopped')
  end
  set_status(run, 'stopping')
  for _, task in ipairs(tasks) do
    if task.status == 'retry_wait' then
      task.status = 'parked'
    end
  end
  close_step(id)
end

-- Ends a claimed attempt without its worker's word, and lets the next one begin.
local function discard(id, task)
  local event = '{"event":"attempt_discarded","step":%.0f,"node":%s,"task":"%s","attempt":%s}'
  add_events(id, event:format(num(run_of(id).step), cjson.encode(task.node), task.name, task.attempt))
  task.token = ''
end

local function try_again(id, task)
  if run_of(id).stop ~= '' and task.name ~= PLAN then
    park(task)
    close_step(id)
  else
    queue(task, num(task.attempt) + 1)
  end
end

-- Puts a ready task aside for a pause that doubles each time, up to a point.
local function put_aside(id, task, reason, pause_ms, doublings)
  local run, times = run_of(id), num(task.given_back)
  task.status, task.given_back = run.stop == '' and 'retry_wait' or 'parked', times + 1
  task['until'] = now + pause_ms * 2 ^ math.min(times, doublings)
  run.reason = reason
  close_step(id)
end
