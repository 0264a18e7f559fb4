-- Drops old checkpoints: what a dropped one changed is kept with the next one that stays, as base:<version>.
-- KEYS[1]  base key of the thread
-- ARGV     keep_last, keep_ms (0 for all), grace_ms, thread_keep_ms (0 for ever)
-- Returns  {number of dropped ones, next_due_ms or '', 1 if the thread was at rest for thread_keep_ms}
-- Keeps    5, 12. Where runs that live or can be continued began stays, so that they can be undone.

local keep_last, keep_ms, grace_ms, thread_keep_ms = num(ARGV[1]), num(ARGV[2]), num(ARGV[3]), num(ARGV[4])
local BATCH, MANY, LOGGED = 500, 2000, 'context'
local bases, pinned, carried, gone = open(key('bases')), {}, {}, {}
local next_due

local function look_again_at(at)
  next_due = math.min(next_due or at, at)
end

local function pin(id)
  if id ~= '' then
    pinned[run_of(id).base] = true
  end
end

-- When an entry may go: at once where enough newer ones are there, else with its time; never before its grace is over.
local function goes_at(number, entry)
  local is_beyond = keep_last > 0 and number <= num(thread.version) - keep_last
  if number >= num(thread.version) or (not is_beyond and keep_ms == 0) then
    return nil
  end
  local at
  for i = 1, #entry, 2 do
    at = entry[i] == 'at' and num(entry[i + 1]) or at
  end
  return at + math.max(grace_ms, is_beyond and 0 or keep_ms)
end

local function carry(kind, name, value)
  carried[name] = { kind, value }
end

local function carry_base(number)
  if bases[number] == '' then
    return
  end
  local base_of = open(key('base', number), true)
  for name, value in pairs(all_of(base_of)) do
    carry(name:sub(1, 1), name:sub(3), value)
  end
  clear(base_of)
  bases[number] = ''
end

local function carry_entry(entry)
  for i = 1, #entry, 2 do
    local kind, name = entry[i]:match('^([vx]):(.*)$')
    if kind then
      carry(kind, name, entry[i + 1])
    end
  end
end

-- What was carried here stays with this one.
local function put_down(number)
  if not next(carried) then
    return
  end
  carry_base(number)
  local base_of = open(key('base', number), true)
  for name, change in pairs(carried) do
    base_of[change[1] .. ':' .. name] = change[2]
    bases[number] = '1'
  end
  carried = {}
end

-- Adds the lists that hold what a checkpoint points at, each with its generation.
local function add_homes(entry, homes)
  for i = 1, #entry, 2 do
    local name = entry[i]:match('^l:(.*)$')
    if name then
      local gen, origin = entry[i + 1]:match('^(%d+):%d+(.*)$')
      homes[name .. ':' .. generation_from(name, gen .. origin).home] = true
    end
  end
end

-- Lists that no checkpoint points at any more. What came after the first that stays, only going back makes point at
-- what is older. Lists of LOGGED are logs: they stay.
local function drop_generations(homes, first)
  if num(thread.returned) >= num(first) then
    local entries = redis.call('XRANGE', key('checkpoints'), first .. '-0', '+', 'COUNT', MANY)
    for _, found in ipairs(entries) do
      add_homes(found[2], homes)
    end
    if #entries == MANY then
      return
    end
  end
  for _, generation in ipairs(redis.call('SMEMBERS', key('generations'))) do
    local name, gen = generation:match('^(.*):(%d+)$')
    if name ~= LOGGED and num(gen) < num(first) and not homes[generation] then
      write('list', 'UNLINK', key('list', generation))
      write('set', 'SREM', key('generations'), generation)
    end
  end
end

local function fold(entries)
  local homes = {}
  for i, found in ipairs(entries) do
    local number, entry = found[1]:match('^%d+'), found[2]
    local at, is_last = goes_at(num(number), entry), i > BATCH
    if at and at <= now and not pinned[number] and not is_last then
      carry_base(number)
      carry_entry(entry)
      gone[#gone + 1] = found[1]
    else
      put_down(number)
      add_homes(entry, homes)
      if not pinned[number] or is_last then
        drop_generations(homes, number)
        return at and look_again_at(math.max(at, now))
      end
    end
  end
end

local function has_something_to_drop()
  for _, found in ipairs(redis.call('XRANGE', key('checkpoints'), '-', '+', 'COUNT', 3)) do
    local at = goes_at(num(found[1]:match('^%d+')), found[2])
    if not at then
      return false
    elseif not pinned[found[1]:match('^%d+')] then
      look_again_at(math.max(at, now))
      return at <= now
    end
  end
end

pin(thread.active)
pin(thread.continuable)
if has_something_to_drop() then
  next_due = nil
  fold(redis.call('XRANGE', key('checkpoints'), '-', '+', 'COUNT', BATCH + 1))
  for first = 1, #gone, CHUNK do
    write('stream', 'XDEL', key('checkpoints'), unpack(gone, first, math.min(first + CHUNK - 1, #gone)))
  end
  thread.folds = num(thread.folds) + 1
end

local over_at = rested_since() + thread_keep_ms
local is_at_rest = thread.created_ms ~= '' and thread.active == '' and #inbox() == 0
  and redis.call('ZCARD', key('delayed')) == 0
local is_over = is_at_rest and thread_keep_ms > 0 and over_at <= now
if is_at_rest and thread_keep_ms > 0 then
  look_again_at(over_at)
end
save()
return { #gone, next_due and text(next_due) or '', is_over and 1 or 0 }
