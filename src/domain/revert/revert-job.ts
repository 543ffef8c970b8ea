import { z } from "zod";
import { ADMINS } from "../kernel/access.ts";
import { jobKind } from "../long-work/job-kind.ts";
import { revertEvent } from "./revert-event.ts";
import { ON_SHORTFALL } from "./revert-result.ts";

/** Reverts one event; all of it is one step. */
export const eventRevert = jobKind({
  kind: "EVENT_REVERT",
  access: { scope: "players:write", roles: ADMINS },
  params: z.object({ eventId: z.uuid(), reason: z.string(), onShortfall: z.enum(ON_SHORTFALL) }),
  step: async (work, { projectId, params, createdBy }) => ({
    result: await revertEvent(work, projectId, { ...params, actor: createdBy }),
  }),
});
