/** Bytes of a request body, unless its operation says otherwise. */
export const BODY_LIMIT = 1024 * 1024;
/** Names and values in the JSON of a request body, unless its operation takes more bytes than BODY_LIMIT. */
export const BODY_PARTS_MAX = 100_000;
/** Names and values in the JSON of a body that may have more bytes than BODY_LIMIT. */
export const LARGE_BODY_PARTS_MAX = 250_000;
/**
 * Names of one object in the JSON of a request body. No operation takes as many; going through an object of a
 * hundred thousand names once takes 30 to 130 ms, and parsing it as long.
 */
export const BODY_NAMES_MAX = 10_000;
/** Bytes of a matchmaking request's body. */
export const MATCHMAKE_BODY_LIMIT = 16 * 1024;
/** Open rooms of one project in all processes: one for each player who is online, and those they share. */
export const PROJECT_ROOMS_MAX = 50_000;
/** Sockets of one player (or console user) over all rooms and processes. */
export const PLAYER_SOCKETS_MAX = 25;
/** Bytes of one rule's document as compact JSON, with its defaults and the ids of its actions. */
export const RULE_MAX_BYTES = 32 * 1024;
/** Bytes of any other definition's document as compact JSON: a badge, a leaderboard and so on. */
export const DEFINITION_MAX_BYTES = 32 * 1024;
/**
 * Bytes of all that runs in a project as PostgreSQL writes JSON: published rules that are ACTIVE or in
 * SHADOW, definitions and leaderboards that are not archived.
 */
export const PROJECT_MAX_BYTES = 4 * 1024 * 1024;
/** Different counters that the rules, badges and segments which run in a project read together. */
export const COUNTERS_MAX = 2_500;
/**
 * Bytes of what is kept of a player in one document, as JSON: counters, and what limits of rules have
 * counted. A thousand counters of rolling windows fit.
 */
export const PLAYER_STATE_MAX_BYTES = 3 * 1024 * 1024;
/** Bytes of a partial change beyond a whole document: versions, and null for what it takes away. */
export const PATCH_MORE_BYTES = 1024;

/** Problems told at once: whoever sends a thousand faults does not read a thousand answers. */
export const PROBLEMS_MAX = 100;
