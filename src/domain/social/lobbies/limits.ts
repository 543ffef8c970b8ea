/** Maximum number of a project's lobbies that are not closed. */
export const OPEN_LOBBIES_MAX = 10_000;
/** Maximum number of players in one lobby. */
export const LOBBY_PLAYERS_MAX = 100;
/** Maximum number of spectators in one lobby. */
export const SPECTATORS_MAX = 100;
/** Maximum bytes of a lobby's `metadata`, and of its `privateData`, as JSON. */
export const LOBBY_DATA_MAX_BYTES = 4 * 1024;
/** Maximum bytes of a member's `data`, and of the `stats` of a result, as JSON. */
export const MEMBER_DATA_MAX_BYTES = 1024;
export const LOBBY_NAME_MAX = 100;
export const PASSCODE_MAX = 64;
/** Maximum number of players per invitation request. */
export const INVITES_AT_ONCE = 20;
/** Maximum number of a lobby's unanswered invitations. */
export const INVITES_OPEN_MAX = 200;
/** How long an invitation can be accepted, in ms. */
export const INVITE_MS = 10 * 60_000;
/** How long an open lobby waits for a game, in ms. */
export const LOBBY_LIFE_MS = 24 * 3_600_000;
/** How long a heartbeat keeps a member present, in ms. */
export const HEARTBEAT_MS = 60_000;
/** How long a closed lobby can be read, in ms. */
export const CLOSED_KEPT_MS = 7 * 24 * 3_600_000;
