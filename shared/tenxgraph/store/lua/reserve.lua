-- Takes an effect in hand for an attempt, or tells how it stands.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token, effect, nonce, lease_ms, at_most_once (1 or 0)
-- Returns  {outcome, result or '', until_ms}
-- Keeps    4 (who was fenced reserves nothing), 6 (a repeat under the nonce is granted again), 13.

local id, step, name, token, effect_name, nonce, lease_ms, at_most_once = unpack(ARGV, 1, 8)
local effect = effect_of(effect_name)

local task = find(id, step, name)
if not task or task.token ~= token or task.status ~= 'claimed' then
  hear_fenced(id, step, name, token)
  return { 'fenced', '', '0' }
end
if effect.done_by ~= '' then
  return { 'done', effect.result:sub(2), '0' }
end
if effect.holder ~= nonce then
  if effect.holder ~= '' and num(effect['until']) > now then
    return { 'held', '', effect['until'] }
  elseif at_most_once == '1' and effect.run == id then
    return { 'lost', '', '0' }
  end
  effect.nonces = effect.nonces .. nonce .. '\n'
end
effect.holder, effect.run, effect['until'] = nonce, id, now + lease_ms
-- Both leases end together: when this process dies, the next attempt need not wait for the effect.
task['until'] = math.max(num(task['until']), now + lease_ms)
save()
return { 'granted', '', effect['until'] }
