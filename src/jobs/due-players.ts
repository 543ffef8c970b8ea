import type { App } from "../app.ts";
import type { PlayersOf } from "../domain/progression/change-free-players.ts";
import { byProject, DUE_PAGE, type Due, findDue } from "../domain/progression/due-players.ts";
import type { Work } from "../domain/work.ts";

type Sweep = {
  due: Parameters<typeof findDue>[1];
  /** One transaction for the due players of a page who are of one project. */
  settle(work: Work, players: PlayersOf): Promise<void>;
};

/**
 * Goes once through all players for whom something is due, in pages. A project whose players cannot be changed
 * does not keep the others back; whoever is left out is found by the next run.
 */
export const sweepDue = async (app: App, { due, settle }: Sweep): Promise<void> => {
  let after: Due | undefined;
  for (;;) {
    const page: Due[] = await app.transact((work) => findDue(work, due, after));
    for (const [projectId, playerIds] of byProject(page)) {
      try {
        await app.transact((work) => settle(work, { projectId, playerIds }));
      } catch (err) {
        app.log.error({ err, projectId, table: due.table }, "what is due could not be settled");
      }
      await app.limits.pause?.();
    }
    if (page.length < DUE_PAGE) return;
    after = page.at(-1);
  }
};
