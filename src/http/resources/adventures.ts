import { z } from "zod";
import { DRAFT_STATUSES, publishDraft, showDraft } from "../../domain/economy/definitions/drafts.ts";
import { getDefinition } from "../../domain/economy/definitions/definitions.ts";
import { adventureKind, readAdventureStats } from "../../domain/economy/adventures/kind.ts";
import { listAdventures, ADVENTURE_ORDERS } from "../../domain/economy/adventures/list.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import { type AnyRoute } from "../route.ts";
import { draftRoutes } from "./draft-routes.ts";
import { Search, sortedBy } from "./list-bodies.ts";
import {
  manageAdventures as write,
  AdventureBody,
  AdventureStatsBody,
  AdventureVersionBody,
  readAdventures as read,
} from "./adventure-bodies.ts";

const ListQuery = PageQuery.extend({
  ...sortedBy(ADVENTURE_ORDERS),
  status: z.enum(DRAFT_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
  season: z.string().min(1).max(64).optional(),
  questKey: Key.optional().meta({ description: "Those of which this quest is an item" }),
  search: Search.meta({ description: "Part of the name or key" }),
});

const { editing, running } = draftRoutes({
  kind: adventureKind,
  one: "an adventure",
  read,
  write,
  body: AdventureBody,
  versionBody: AdventureVersionBody,
  moves: {
    pause: "Nobody joins it or gets further, and its quests cannot be started; its end stays.",
    resume: "It goes on where it was.",
    end: "What players have in progress expires; what they have reached can be claimed until `claimUntil`.",
  },
  copy: { key: "spring", name: "Spring season" },
});

export const adventureRoutes: readonly AnyRoute[] = [
  read.get("/adventures", "listAdventures", {
    isRevalidated: true,
    summary: "List adventures",
    description: "By `sortOrder`, unless sorted otherwise. The fields are those of the drafts.",
    query: ListQuery,
    response: pageBody(AdventureBody),
    run: async (work, { projectId, query }) => {
      const { adventures, total } = await listAdventures(work, projectId, query);
      return pageOf(adventures.map((one) => showDraft(one, work)) as never[], total, query);
    },
  }),
  ...editing,
  write.post("/adventures/{adventureId}/publish", "publishAdventure", {
    summary: "Publish an adventure's draft",
    description:
      "As the next version, effective from the next events on, also for players in progress: what they " +
      "have done, reached and claimed stays. Names and rewards are checked: what is unknown, waits for " +
      "itself or cannot end is refused. From then on its quests are open only through it.",
    response: AdventureBody,
    run: async (work, { projectId, params }) => {
      const found = await publishDraft(work, adventureKind, { projectId, ref: params.adventureId });
      return showDraft(found, work) as never;
    },
  }),
  ...running,
  read.get("/adventures/{adventureId}/stats", "getAdventureStats", {
    summary: "Get statistics of an adventure",
    description: "How far players have come: items and tiers of the draft.",
    response: AdventureStatsBody,
    run: async (work, { projectId, params }) => {
      const found = await getDefinition(work, projectId, adventureKind, params.adventureId);
      return readAdventureStats(work, found);
    },
  }),
];
