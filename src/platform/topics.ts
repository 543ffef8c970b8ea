import type { Presence } from "@colyseus/core";
import type { Logger } from "pino";
import type { Topics } from "../domain/kernel/topics.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import { throttledWarnings } from "../domain/kernel/outages.ts";

/** Determines which of these topics have a listener in any process, by position. */
export type ListenerCheck = (topics: readonly string[]) => Promise<readonly boolean[]>;

/** Up to this many messages are published without a check, which would cost as much. */
const UNCHECKED_MAX = 8;
/** Topics checked per call, so that none blocks Redis. */
const CHECKED_MAX = 1_000;

/** Topics over a presence: a listener's exception is logged, a failed publish is lost. */
export const topicsOver = (
  presence: Presence,
  { prefix, hasListeners, log }: { prefix: string; hasListeners: ListenerCheck; log: Logger },
): Topics => {
  const warn = throttledWarnings(log);
  const failed = (err: unknown): void => warn(err, "publish failed; readers will ask the database");
  const publish: Topics["publish"] = (topic, message) => {
    try {
      Promise.resolve(presence.publish(prefix + topic, message)).catch(failed);
    } catch (err) {
      failed(err);
    }
  };
  /** If listeners cannot be determined, assumes that every topic has some. */
  const ask = async (topics: readonly string[], large: boolean): Promise<readonly boolean[]> => {
    if (topics.length === 0 || (!large && topics.length <= UNCHECKED_MAX)) return topics.map(() => true);
    try {
      return await hasListeners(topics.map((topic) => prefix + topic));
    } catch {
      return topics.map(() => true);
    }
  };
  return {
    publish,
    publishIfSubscribed: async (messages, large = false) => {
      const answers = await ask(
        messages.map(([topic]) => topic),
        large,
      );
      await mapInSlices(messages, ([topic, make], n) => {
        if (answers[n]) publish(topic, make());
      });
    },
    subscribe: async (topic, listener) => {
      const guarded = (message: unknown) => {
        try {
          listener(message as never);
        } catch (err) {
          log.error({ err, topic }, "a listener threw");
        }
      };
      const leave = (): void =>
        void Promise.resolve(presence.unsubscribe(prefix + topic, guarded)).catch((err: unknown) =>
          warn(err, "a topic could not be left"),
        );
      try {
        await presence.subscribe(prefix + topic, guarded);
      } catch (error) {
        // Otherwise the presence would keep this subscription beside the next attempt's.
        leave();
        throw error;
      }
      return leave;
    },
  };
};

type CountsListeners = { pubsub(command: "NUMSUB", ...topics: string[]): Promise<unknown[]> };

/** Asks Redis for the number of listeners of each topic. */
export const redisListenerCheck =
  (redis: CountsListeners): ListenerCheck =>
  async (topics) => {
    const asked: Promise<unknown[]>[] = [];
    for (let from = 0; from < topics.length; from += CHECKED_MAX) {
      asked.push(redis.pubsub("NUMSUB", ...topics.slice(from, from + CHECKED_MAX)));
    }
    const counts = (await Promise.all(asked)).flat();
    return topics.map((_, n) => Number(counts[2 * n + 1]) > 0);
  };
