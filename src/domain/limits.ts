/** Bytes of a request body, unless its operation says otherwise. */
export const BODY_LIMIT = 1024 * 1024;
/** Bytes of a matchmaking request's body. */
export const MATCHMAKE_BODY_LIMIT = 16 * 1024;
/** Open rooms of one project in all processes: one for each player who is online, and those they share. */
export const PROJECT_ROOMS_MAX = 50_000;
/** Sockets of one player (or console user) over all rooms and processes. */
export const PLAYER_SOCKETS_MAX = 25;
