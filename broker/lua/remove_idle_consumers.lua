-- Remove names of consumers without entries. ARGV: stream, consumer, or '' and a time in ms: all that were silent for
-- longer. Removing the name of a living one costs nothing: its next read restores it.
-- A consumer with pending entries stays: removing it would hide them from everybody for ever.
local stream = STREAMS[ARGV[1]]
redis.call('HDEL', TRIES, '')                 -- full memory refuses to remove a name as the first write
local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, GROUP)
local removed = 0
for _, fields in ipairs(consumers) do
  local about = {}
  for i = 1, #fields, 2 do about[fields[i]] = fields[i + 1] end
  local is_meant = about.name == ARGV[2] or (ARGV[2] == '' and about.idle > tonumber(ARGV[3]))
  if is_meant and about.pending == 0 then
    redis.call('XGROUP', 'DELCONSUMER', stream, GROUP, about.name)
    removed = removed + 1
  end
end
return removed
