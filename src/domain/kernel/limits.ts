/** Maximum bytes of a request body, unless its operation says otherwise. */
export const BODY_LIMIT = 1024 * 1024;
/** The same of an operation that is open to everyone, unless it says otherwise. */
export const PUBLIC_BODY_LIMIT = 16 * 1024;
/**
 * Maximum names and values in the JSON of a request body, unless its operation allows more than BODY_LIMIT.
 */
export const BODY_PARTS_MAX = 100_000;
/** Maximum names and values in the JSON of a body that may exceed BODY_LIMIT. */
export const LARGE_BODY_PARTS_MAX = 250_000;
/**
 * Maximum names of one object in the JSON of a request body. No operation needs as many; iterating an object
 * of a hundred thousand names once takes 30 to 130 ms, and parsing it as long.
 */
export const BODY_NAMES_MAX = 10_000;
/** Maximum bytes of a matchmaking request's body. */
export const MATCHMAKE_BODY_LIMIT = 16 * 1024;
/** Maximum open rooms of one project in all processes: one for each online player, and shared ones. */
export const PROJECT_ROOMS_MAX = 50_000;
/** Maximum sockets of one player (or console user) over all rooms and processes. */
export const PLAYER_SOCKETS_MAX = 25;
/** Maximum bytes of a rule's document as compact JSON, with its defaults and the ids of its actions. */
export const RULE_MAX_BYTES = 32 * 1024;
/** Maximum bytes of any other definition's document as compact JSON: a badge, a leaderboard and so on. */
export const DEFINITION_MAX_BYTES = 32 * 1024;
/**
 * Maximum bytes, as JSON in PostgreSQL's format, of everything that runs in a project: published rules that
 * are ACTIVE or in SHADOW, definitions and leaderboards that are not archived.
 */
export const PROJECT_MAX_BYTES = 4 * 1024 * 1024;
/**
 * Maximum bytes, in that format, of everything that an export of a project has: what runs, and the rules that
 * are a DRAFT or PAUSED.
 */
export const KEPT_MAX_BYTES = 2 * PROJECT_MAX_BYTES;
/** Maximum bytes, as compact JSON, of the saved reports that such an export has beside. */
const KEPT_REPORTS_BYTES = 2 * 1024 * 1024;
/** Maximum bytes of a document of `/config/import`: all that with its frame, and a fifth for spaces. */
export const DOCUMENT_MAX_BYTES = 12 * 1024 * 1024;
/**
 * Maximum names and values of such a document: each takes three bytes at least in PostgreSQL's format, and
 * two in a report.
 */
export const DOCUMENT_PARTS_MAX =
  Math.ceil(KEPT_MAX_BYTES / 3) + KEPT_REPORTS_BYTES / 2 + LARGE_BODY_PARTS_MAX;
/** Maximum distinct counters read by the running rules, badges and segments of a project together. */
export const COUNTERS_MAX = 2_500;
/**
 * Maximum bytes of a player's state document, as JSON: counters, and usage of rule limits. A thousand
 * counters of rolling windows fit.
 */
export const PLAYER_STATE_MAX_BYTES = 3 * 1024 * 1024;
/** Bytes that a partial change may have beyond a whole document: versions, and null for removed fields. */
export const PATCH_MORE_BYTES = 1024;

/** Maximum problems reported at once. */
export const PROBLEMS_MAX = 100;
/** Maximum length of a player's external id. */
export const EXTERNAL_ID_MAX = 255;
/** Time for which a replaced key or secret works beside the new one, in seconds, unless a caller says. */
export const ROTATION_GRACE_SECONDS = 86_400;
export const ROTATION_GRACE_SECONDS_MAX = 7 * 86_400;

/** Maximum tiers of a badge. */
export const TIERS_MAX = 20;

/** How far ahead of the server's clock an event's timestamp may be, in ms. */
export const FUTURE_LIMIT_MS = 24 * 3_600_000;
