import { z } from "zod";
import { EVIDENCE_URL_MAX } from "../../evaluation/quests/submit.ts";
import { QUESTIONS_MAX } from "../../evaluation/quests/step.ts";

const OPTIONS_MAX = 20;
const FIELDS = ["evidence", "code", "answers"] as const;

/** What may be submitted for a step; of these fields one, or none for a confirmation without evidence. */
export const submitShape = z.strictObject({
  evidence: z.string().min(1).max(EVIDENCE_URL_MAX).optional().describe("MANUAL: a text or an address"),
  code: z
    .string()
    .min(1)
    .max(200)
    .refine((code) => code.trim() !== "", "must not be blank")
    .optional()
    .describe("CODE: as the player has entered it"),
  answers: z
    .record(
      z.string().min(1).max(64),
      z
        .array(
          z
            .int()
            .min(0)
            .max(OPTIONS_MAX - 1),
        )
        .max(OPTIONS_MAX),
    )
    .refine(
      (answers) => Object.keys(answers).length <= QUESTIONS_MAX,
      `has more than ${QUESTIONS_MAX} questions`,
    )
    .optional()
    .describe("QUIZ: by key of each question the places of the chosen options, from 0"),
});

/** Whether a body submits one thing at most, with what to say of one that does not. */
export const isOneThing = [
  (body: z.output<typeof submitShape>): boolean =>
    FIELDS.filter((field) => body[field] !== undefined).length <= 1,
  { error: `give one of ${FIELDS.join(", ")}, or none` },
] as const;

export const SubmitBody = submitShape
  .refine(...isOneThing)
  .meta({ id: "QuestSubmit", example: { code: "Open Sesame" } });
