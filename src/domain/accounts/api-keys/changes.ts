import { forgetProjects } from "../projects/resolve.ts";
import type { Topics } from "../../kernel/events/topics.ts";
import type { Work } from "../../kernel/work.ts";
import { forgetKeys } from "./authenticate.ts";

const TOPIC = "keys";

/**
 * Tells other processes that keys or projects have changed, once the commit is durable. Where that is lost,
 * their caches of 5 s are the promise.
 */
export const tellKeysChanged = (work: Work, topics: Topics): void =>
  work.afterCommit(() => topics.publish(TOPIC, {}));

/** Goes by what other processes tell, from when it resolves. */
export const followKeyChanges = async (topics: Topics): Promise<void> => {
  await topics.subscribe(TOPIC, () => {
    forgetKeys();
    forgetProjects();
  });
};
