import { DomainError } from "./errors.ts";

/**
 * Returns what runs `load` when it is first called, and gives its result from then on. A failure is not kept:
 * the next call tries again, since a process may have been out of file descriptors or of memory.
 */
export const onceLoaded = <T>(load: () => Promise<T>): (() => Promise<T>) => {
  let loaded: Promise<T> | undefined;
  return () => {
    if (!loaded) {
      loaded = load();
      loaded.catch(() => (loaded = undefined));
    }
    return loaded;
  };
};

/** The client of a request has disconnected, so that what was begun for it alone ends. */
export class ClientGone extends DomainError {
  constructor() {
    super("SERVICE_UNAVAILABLE", "The client has gone");
  }
}

/**
 * Returns the result of the flight of `key`: one in progress, or a new one, which those who come meanwhile
 * join. A flight that ended because the client for whom it was begun has gone says nothing to others: they
 * begin another.
 */
export const joinFlight = async <T>(
  flights: Map<string, Promise<T>>,
  key: string,
  begin: () => Promise<T>,
): Promise<T> => {
  for (;;) {
    const others = flights.get(key);
    if (!others) return beginFlight(flights, key, begin);
    try {
      return await others;
    } catch (error) {
      if (!(error instanceof ClientGone)) throw error;
    }
  }
};

/** A flight is over before anybody hears of its end, so whoever begins another finds none. */
const beginFlight = <T>(
  flights: Map<string, Promise<T>>,
  key: string,
  begin: () => Promise<T>,
): Promise<T> => {
  const flight = begin().finally(() => void flights.delete(key));
  flights.set(key, flight);
  return flight;
};
