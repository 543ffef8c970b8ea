import type { Presence } from "@colyseus/core";
import type { Logger } from "pino";
import type { Topics } from "../domain/kernel/events/topics.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import { throttledWarnings } from "../domain/kernel/throttled-log.ts";

/** Which of these topics has a listener in any process, by position. */
export type Heard = (topics: readonly string[]) => Promise<readonly boolean[]>;

/** So few are published without asking first: that would cost as much. */
const UNASKED_MAX = 8;
/** Topics asked about in one call, so that none holds up Redis. */
const ASKED_MAX = 1_000;

/** Topics over a presence: a listener that throws is logged, a publish that fails is lost. */
export const topicsOver = (
  presence: Presence,
  { prefix, heard, log }: { prefix: string; heard: Heard; log: Logger },
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
  /** When nobody can say who listens, everybody may. */
  const ask = async (topics: readonly string[]): Promise<readonly boolean[]> => {
    if (topics.length <= UNASKED_MAX) return topics.map(() => true);
    try {
      return await heard(topics.map((topic) => prefix + topic));
    } catch {
      return topics.map(() => true);
    }
  };
  return {
    publish,
    publishIfSubscribed: async (messages) => {
      const answers = await ask(messages.map(([topic]) => topic));
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
          warn(err, `${topic} could not be left`),
        );
      try {
        await presence.subscribe(prefix + topic, guarded);
      } catch (error) {
        // The presence would go on listening for it, beside the next try.
        leave();
        throw error;
      }
      return leave;
    },
  };
};

type CountsListeners = { pubsub(command: "NUMSUB", ...topics: string[]): Promise<unknown[]> };

/** Asks Redis, which answers each topic with the number of its listeners. */
export const heardOverRedis =
  (redis: CountsListeners): Heard =>
  async (topics) => {
    const asked: Promise<unknown[]>[] = [];
    for (let from = 0; from < topics.length; from += ASKED_MAX) {
      asked.push(redis.pubsub("NUMSUB", ...topics.slice(from, from + ASKED_MAX)));
    }
    const counts = (await Promise.all(asked)).flat();
    return topics.map((_, n) => Number(counts[2 * n + 1]) > 0);
  };
