import type { Work } from "../work.ts";
import type { Rule } from "./rule.ts";

/** Plans when the rule's triggers by time are due next, or forgets them while it does not run. */
export const planSchedules = async (_work: Work, _rule: Rule): Promise<void> => undefined;
