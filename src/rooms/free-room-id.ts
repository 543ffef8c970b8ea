import { matchMaker } from "@colyseus/core";
import { DomainError } from "../domain/kernel/errors.ts";

const RETRY_SECONDS = 10;

/**
 * Returns the first id of `shards` that no room has; if two rooms take one id simultaneously, the driver
 * keeps one.
 * @throws DomainError SERVICE_UNAVAILABLE when all are taken
 */
export const freeRoomId = async (
  idOf: (shard: number) => string,
  shards: number,
  what: string,
): Promise<string> => {
  for (let shard = 0; shard < shards; shard++) {
    const id = idOf(shard);
    if (!(await matchMaker.driver.has(id))) return id;
  }
  const retry = { retryAfterSeconds: RETRY_SECONDS };
  throw new DomainError("SERVICE_UNAVAILABLE", `too many clients watch this ${what}: try again later`, retry);
};
