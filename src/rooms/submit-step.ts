import { createHash } from "node:crypto";
import { z } from "zod";
import { transactIn } from "./mirror-room.ts";
import type { App } from "../app.ts";
import {
  admitAttempt,
  isOneThing,
  type SubmitAnswer,
  submitPlayerStep,
  submitShape,
} from "../domain/economy/quests/submissions.ts";
import { answerOnce, findResponse, IDEMPOTENCY_KEY_MAX } from "../domain/kernel/idempotency.ts";
import type { Work } from "../domain/kernel/work.ts";
import { projectPlans, readPlan } from "../domain/progression/plan.ts";

const Name = z.string().min(1).max(64);
const IdempotencyKey = z
  .string()
  .max(IDEMPOTENCY_KEY_MAX)
  .regex(/^[\x21-\x7e]+$/, "must be visible ASCII characters");

/** A step of one of the player's own quests, and what is submitted for it. */
export const SubmitRequest = submitShape
  .extend({ quest: Name, step: Name, idempotencyKey: IdempotencyKey.optional() })
  .refine(...isOneThing);

type PlayerRef = { projectId: string; playerId: string };

/**
 * Submits a step of the quest of the player to whom the room belongs, as the operation of REST does. What was
 * submitted with an `idempotencyKey` has the same answer when it comes again; a refusal is tried anew.
 * @throws DomainError as `submitPlayerStep`; CONFLICT IDEMPOTENCY_IN_PROGRESS,
 * UNPROCESSABLE_ENTITY IDEMPOTENCY_KEY_REUSED
 */
export const submitQuestStep = async (
  app: App,
  { projectId, playerId }: PlayerRef,
  { idempotencyKey: key, ...submitting }: z.output<typeof SubmitRequest>,
): Promise<SubmitAnswer> => {
  const { limiter, clock, secretBox } = app;
  const { quest: questRef, step: stepKey, ...body } = submitting;
  const [ref, given] = [
    { projectId, id: playerId },
    { questRef, stepKey, body },
  ];
  const transact = transactIn(app, projectId);
  const admit = (): Promise<void> => admitAttempt({ transact, limiter, clock }, ref, given);
  const run = (work: Work): Promise<SubmitAnswer> => submitPlayerStep(work, ref, given);
  if (key === undefined) {
    await admit();
    return transact(run);
  }
  const { tenantId } = await transact((work) => readPlan(work, projectId, projectPlans));
  const transactAsTenant = app.transactAs({ role: "web", tenantId, projectIds: [projectId] });
  const fingerprint = createHash("sha256").update(JSON.stringify(submitting)).digest("hex");
  // Keys of a player are no other's; they are kept with those of the tenant.
  const request = { scope: `player:${projectId}:${playerId}`, key, tenantId, fingerprint };
  const known = await transactAsTenant((work) => findResponse(work, { secretBox, request }));
  if (known) return known.body as SubmitAnswer;
  await admit();
  // The answer is stored in the transaction of the work.
  const made = await transactAsTenant((work) =>
    answerOnce(work, { secretBox, request }, async () => ({ status: 200, body: await run(work) })),
  );
  return made.body;
};
