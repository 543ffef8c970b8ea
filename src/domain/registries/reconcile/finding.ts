import type { Work } from "../../kernel/work.ts";

/** What is not as it must be. `invariant` names the rule that is broken; see docs/ARCHITECTURE.md. */
export type Finding = {
  invariant: string;
  projectId: string;
  playerId: string | null;
  message: string;
  /** Whether it is derived data that `--repair` puts right from what it is derived from. */
  isRepairable: boolean;
};

/** Players of one project, locked for the transaction, so that nothing moves while they are looked at. */
export type Page = { projectId: string; playerIds: readonly string[] };

/** Looks at one page. `repair` puts right what is derived; findings are told either way. */
export type Check = (work: Work, page: Page, repair: boolean) => Promise<Finding[]>;

/** The page's ids as a parameter of `any(…::uuid[])`. */
export const idsOf = ({ playerIds }: Page): string => `{${playerIds.join(",")}}`;
