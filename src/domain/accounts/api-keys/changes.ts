import { forgetProjects } from "../projects/project.ts";
import type { Topics } from "../../kernel/events/chat-views.ts";
import type { Work } from "../../kernel/work.ts";
import { forgetKeys } from "./authenticate.ts";

const TOPIC = "keys";

/**
 * Notifies other processes of changes to keys or projects once the commit is durable. If the message is lost,
 * their caches still expire (CACHE_TTL_MS).
 */
export const publishKeysChanged = (work: Work, topics: Topics): void =>
  work.afterCommit(() => topics.publish(TOPIC, {}));

/** Subscribes to such notifications; in effect once it resolves. */
export const subscribeKeyChanges = async (topics: Topics): Promise<void> => {
  await topics.subscribe(TOPIC, () => {
    forgetKeys();
    forgetProjects();
  });
};
