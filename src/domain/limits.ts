/** Bytes of a request body, unless its operation says otherwise. */
export const BODY_LIMIT = 1024 * 1024;
/** Bytes of a matchmaking request's body. */
export const MATCHMAKE_BODY_LIMIT = 16 * 1024;
