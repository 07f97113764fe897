-- Read the place of every group without an outcome. ARGV: ids whose entry is read too: that copies it, so they are few.
-- Reads only.
-- returns id, stream, entry, time of issue for each; an empty time where the entry is gone, all empty where `where` has
-- none, and '?' for the time of an entry that was not read.
local looked_at = {}
for _, id in ipairs(ARGV) do looked_at[id] = true end
local out = {}
for _, id in ipairs(redis.call('ZRANGE', SLOTS, 0, -1)) do
  local stream, entry = place_of(id)
  out[#out + 1] = id
  out[#out + 1] = stream or ''
  out[#out + 1] = entry or ''
  if stream and not looked_at[id] then
    out[#out + 1] = '?'
  else
    local at, is_there = header(stream, entry, 'at')
    out[#out + 1] = is_there and (at or '0') or ''          -- a dead letter has no time of issue
  end
end
return out
