/** What one signal may carry, as JSON. */
export const SIGNAL_MAX_BYTES = 2_048;
/** Signals of one member in a second, over all their sockets in a room. */
export const SIGNALS_PER_SECOND_MAX = 20;
/** Members that one signal may name. */
export const SIGNAL_TO_MAX = 100;
/** Requests that may wait in one room of a lobby before more are refused. */
export const REQUESTS_WAITING_MAX = 200;
/** Sockets and reserved seats of one room of a lobby. */
export const LOBBY_SOCKETS_MAX = 1_000;
/** Lobbies that one live list shows. */
export const LOBBIES_SHOWN_MAX = 100;
/** What a live list asks of lobbies' metadata, as JSON. */
export const LOBBIES_FILTER_MAX_BYTES = 1_024;
