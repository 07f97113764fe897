-- Where every group without an outcome is. Reads only.
-- returns id, stream, entry, time of issue for each; an empty time where the entry is gone, empty all where `where` is.
local out = {}
for _, id in ipairs(redis.call('ZRANGE', SLOTS, 0, -1)) do
  local stream, entry = place_of(id)
  out[#out + 1] = id
  out[#out + 1] = stream or ''
  out[#out + 1] = entry or ''
  out[#out + 1] = stream and exists(stream, entry) and (header(stream, entry, 'at') or '0') or ''
end
return out
