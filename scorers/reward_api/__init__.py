"""Old reward servers, which go on scoring while one moves: `POST /reward`."""
