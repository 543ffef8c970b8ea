/** Maximum size of a signal's payload as JSON. */
export const SIGNAL_MAX_BYTES = 2_048;
/** Maximum number of signals of one member per second, over all their sockets in a room. */
export const SIGNALS_PER_SECOND_MAX = 20;
/** Maximum number of members addressed by one signal. */
export const SIGNAL_TO_MAX = 100;
/** Maximum number of requests that wait in one lobby room. */
export const REQUESTS_WAITING_MAX = 200;
/** Maximum number of sockets and reserved seats in one lobby room. */
export const LOBBY_SOCKETS_MAX = 1_000;
/** Maximum number of lobbies in one live list. */
export const LOBBIES_SHOWN_MAX = 100;
/** Maximum size of a live list's metadata filter, as JSON. */
export const LOBBIES_FILTER_MAX_BYTES = 1_024;
