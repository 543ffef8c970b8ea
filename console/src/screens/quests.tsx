import { Group, Stack, Text } from "@mantine/core";
import { useCan } from "../api/hooks.ts";
import type { Answer, Row } from "../api/client.ts";
import { duration, nameOf, number, percent, words } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { DraftForm, DraftPage } from "../ui/draft.tsx";
import { act, form } from "../ui/operations.tsx";
import { ButtonSize, Hint, Read, Section, Tiles, tilesOf } from "../ui/page.tsx";
import { List } from "../ui/table.tsx";
import { Catalogue } from "../ui/catalogue.tsx";

type Quest = Answer<"getQuest">;

const FIRST = [
  "name",
  "key",
  "description",
  "steps",
  "stepMode",
  "rewards",
  "repeat",
  "availableFrom",
  "availableUntil",
];

const STEP = {
  key: "play",
  name: "Play three levels",
  kind: "EVENT",
  metric: { eventTypes: ["level_finished"], aggregate: "count" },
  target: 3,
};
const NEW = { key: "my-first-quest", name: "My first quest", steps: [STEP], rewards: { xp: 50 } };

export const Quests = () => {
  const can = useCan();
  return (
    <Catalogue
      id="listQuests"
      one="quest"
      about="Goals with steps and rewards: once, daily, or for those who qualify."
      form={{ first: FIRST, initial: NEW, submit: "Save the draft", done: "Saved as a draft" }}
      hint="Something to do for players, with a reward at its end."
      filters={["search", "status", "category", "tag"]}
      columns={{
        Steps: ({ steps }) => steps.length,
        Again: ({ repeat }) => (repeat.mode === "NONE" ? "Once" : words(repeat.mode)),
        Status: "status",
        Changed: "updatedAt",
      }}
      wide={["Again"]}
      tabs={{ reviews: can("listQuestReviews") && ["To be reviewed", () => <Reviews />] }}
    />
  );
};

type Review = Row<"listQuestReviews">;

/** What players have handed in, with what they say proves it. */
const Reviews = () => (
  <List
    id="listQuestReviews"
    filters={["status"]}
    defaults={{ status: "PENDING" }}
    refetchInterval={10_000}
    empty="Nothing waits for a review"
    dialog={["Submission", (review, close) => <Submission review={review} onDone={close} />]}
    columns={{
      Sent: "submittedAt",
      Player: nameOf,
      Quest: ({ questKey, stepKey }) => `${questKey} · ${stepKey}`,
      Evidence: ({ evidence }) => (
        <Text maw={320} truncate>
          {evidence}
        </Text>
      ),
      Status: "status",
    }}
    actions={(row) => <Decide review={row} />}
  />
);

type DecideProps = { review: Review; onDone?: () => void };

const Submission = ({ review, onDone }: DecideProps) => (
  <Stack>
    <Text>{`${nameOf(review)}, ${review.questKey}, step ${review.stepKey}`}</Text>
    {/* Text of a player: it is shown, and never followed by itself. */}
    <Text size="md" style={{ overflowWrap: "anywhere" }}>
      {review.evidence ?? "Without evidence"}
    </Text>
    {review.note && <Hint>{`${review.reviewedBy ?? ""}: ${review.note}`}</Hint>}
    <Decide review={review} onDone={onDone} />
  </Stack>
);

const Decide = ({ review: { id, status, playerId, questKey, stepKey }, onDone }: DecideProps) => {
  if (status !== "PENDING") return null;
  const path = { playerId, questId: questKey, stepKey };
  return (
    <ButtonSize value="compact-xs">
      <Group gap={4} wrap="nowrap">
        {act("reviewPlayerQuestStep", "Approve", {
          path,
          body: { decision: "APPROVE", submissionId: id },
          isMain: true,
          onDone,
        })}
        {form("reviewPlayerQuestStep", "Reject", {
          path,
          fixed: { decision: "REJECT", submissionId: id },
          hidden: ["decision", "submissionId"],
          onDone,
        })}
      </Group>
    </ButtonSize>
  );
};

export const QuestPage = ({ id }: { id: string }) => (
  <DraftPage
    kind="quest"
    id={id}
    design={(quest) => (
      <>
        <DraftForm kind="quest" of={quest} first={FIRST} />
        <Codes quest={quest} />
      </>
    )}
    pages={() => ({
      stats: ["How it goes", () => <Stats id={id} />],
      players: ["Players", () => <QuestPlayers id={id} />],
    })}
  />
);

/** Steps that ask for a code have a pool of them. */
const Codes = ({ quest }: { quest: Quest }) => {
  const can = useCan();
  const steps = quest.steps.filter(({ kind }) => kind === "CODE");
  if (steps.length === 0 || !can("addQuestCodes")) return null;
  return (
    <Section title="Codes">
      {steps.map(({ key, name }) => (
        <Group key={key}>
          <Text>{name}</Text>
          {form("addQuestCodes", "Add codes", { path: { questId: quest.id, stepKey: key }, submit: "Add" })}
        </Group>
      ))}
    </Section>
  );
};

/** How far players come: a funnel over the steps. */
const Stats = ({ id }: { id: string }) => (
  <Read id="getQuestStats" given={{ path: { questId: id } }}>
    {({ started, states, steps, averageSeconds }) => {
      const share = (players: number) => (started > 0 ? percent(players / started) : "");
      return (
        <Stack>
          <Tiles
            of={{
              Started: started,
              ...tilesOf(states, share),
              "Takes on average": averageSeconds == null ? undefined : duration(averageSeconds),
            }}
          />
          <Section title="Step by step">
            <Bars
              rows={[
                { name: "Started", value: started },
                ...steps.map(({ name, done, waiting }) => ({
                  name,
                  value: done,
                  note: `${share(done)}${waiting > 0 ? `, ${number(waiting)} wait for a review` : ""}`,
                })),
              ]}
            />
          </Section>
        </Stack>
      );
    }}
  </Read>
);

const QuestPlayers = ({ id }: { id: string }) => (
  <List
    id="listQuestPlayers"
    path={{ questId: id }}
    filters={["state", "cycleKey"]}
    to={({ playerId }) => `/players/${playerId}`}
    columns={{
      Player: nameOf,
      State: "state",
      Done: (row) => percent(row.percent / 100),
      Cycle: "cycleKey",
      Started: "startedAt",
      Completed: "completedAt",
    }}
    right={["Done"]}
    wide={["Cycle"]}
  />
);
