/**
 * First keys of PostgreSQL's advisory locks that have two, with what the second one names. Listed
 * together, so that no two mean the same lock.
 */
export const LOCK_SPACES = {
  /** A partition of the queue of events, assigned to one worker. */
  QUEUE: 77,
  /** A project: separates evaluation from changes of definitions. */
  DEFINITIONS: 79,
  /** A project whose players are merged. */
  MERGES: 83,
  /** A project's events in one partition: separates claims from jobs on the same events. */
  EVENTS: 89,
  /** A project whose drafts become larger. */
  DRAFTS: 91,
  /** A project's mode of quickplay, whose lobbies are created. */
  QUICKPLAY: 93,
  /** Something of a project that is limited in number, and is counted before more is added. */
  ROOM: 95,
  /** A project whose rollups are moved on. */
  ROLLUPS: 97,
} as const;

/** Advisory locks with one key. */
export const LOCKS = {
  /** Held while a migration runs. */
  MIGRATION: 7_740,
  /** Held while partitions are created. */
  PARTITIONS: 7_741,
  PLATFORM_TOKENS: 7_742,
} as const;
