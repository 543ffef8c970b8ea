import { Button, Group, Modal, SimpleGrid, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import type { Answer, Row } from "../api/client.ts";
import { useAct, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { duration, number, percent, words } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { DraftActions, type DraftOperations, DraftState, draftOf, Versions } from "../ui/draft.tsx";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, Loaded, Page } from "../ui/page.tsx";
import { Json, Section, Status, Tile, When, Named } from "../ui/small.tsx";
import { List, useOpen } from "../ui/table.tsx";
import { Pages } from "../ui/tabs.tsx";

type Quest = Answer<"getQuest">;

const OPERATIONS: DraftOperations = {
  publish: "publishQuest",
  pause: "pauseQuest",
  resume: "resumeQuest",
  end: "endQuest",
  duplicate: "duplicateQuest",
  archive: "archiveQuest",
  rollback: "rollbackQuest",
  versions: "listQuestVersions",
};

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

const NEW = {
  key: "my-first-quest",
  name: "My first quest",
  steps: [
    {
      key: "play",
      name: "Play three levels",
      kind: "EVENT",
      metric: { eventTypes: ["level_finished"], aggregate: "count" },
      target: 3,
    },
  ],
  rewards: { xp: 50 },
};

export const Quests = () => {
  const to = useTo();
  const can = useCan();
  const open = useOpen<{ id: string }>(({ id }) => to(`/quests/${id}`));
  const create = can("createQuest") && (
    <FormButton
      id="createQuest"
      label="New quest"
      first={FIRST}
      initial={NEW}
      submit="Save the draft"
      done="Saved as a draft"
      onDone={open}
    />
  );
  return (
    <Page
      title="Quests"
      about="Goals with steps and rewards: once, daily, or for those who qualify."
      actions={create}
    >
      <Pages
        pages={{
          quests: [
            "Quests",
            () => (
              <List
                id="listQuests"
                name="Quests"
                filters={["search", "status", "category", "tag"]}
                onRow={open}
                empty={
                  <Empty title="No quests yet">
                    Something to do for players, with a reward at its end. {create}
                  </Empty>
                }
                columns={[
                  {
                    title: "Quest",
                    cell: ({ name, key }) => <Named name={name} more={key} />,
                  },
                  { title: "Steps", cell: ({ steps }) => number(steps.length), isNumber: true },
                  {
                    title: "Again",
                    cell: ({ repeat }) => (repeat.mode === "NONE" ? "Once" : words(repeat.mode)),
                    isWideOnly: true,
                  },
                  { title: "Status", cell: ({ status }) => <Status value={status} /> },
                  { title: "Changed", cell: ({ updatedAt }) => <When at={updatedAt} /> },
                ]}
              />
            ),
          ],
          reviews: can("listQuestReviews") && ["To be reviewed", () => <Reviews />],
        }}
      />
    </Page>
  );
};

type Review = Row<"listQuestReviews">;

/** What players have handed in, with what they say proves it. */
const Reviews = () => {
  const can = useCan();
  const [shown, setShown] = useState<Review>();
  return (
    <>
      <List
        id="listQuestReviews"
        name="Submissions"
        filters={["status"]}
        defaults={{ status: "PENDING" }}
        refetchInterval={10_000}
        onRow={setShown}
        empty={<Empty title="Nothing waits for a review" />}
        columns={[
          { title: "Sent", cell: ({ submittedAt }) => <When at={submittedAt} /> },
          { title: "Player", cell: ({ displayName, externalUserId }) => displayName ?? externalUserId },
          { title: "Quest", cell: ({ questKey, stepKey }) => `${questKey} · ${stepKey}` },
          {
            title: "Evidence",
            cell: ({ evidence }) => (
              <Text size="sm" maw={320} truncate>
                {evidence}
              </Text>
            ),
          },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
        ]}
        actions={
          can("reviewPlayerQuestStep")
            ? (row) => row.status === "PENDING" && <Decide review={row} />
            : undefined
        }
      />
      <Modal opened={shown !== undefined} onClose={() => setShown(undefined)} title="Submission" size="lg">
        {shown && (
          <Stack>
            <Text size="sm">{`${shown.displayName ?? shown.externalUserId}, ${shown.questKey}, step ${shown.stepKey}`}</Text>
            {/* Text of a player: it is shown, and never followed by itself. */}
            <Text style={{ overflowWrap: "anywhere" }}>{shown.evidence ?? "Without evidence"}</Text>
            {shown.note && <Text size="sm" c="dimmed">{`${shown.reviewedBy ?? ""}: ${shown.note}`}</Text>}
            {shown.status === "PENDING" && can("reviewPlayerQuestStep") && (
              <Decide review={shown} onDone={() => setShown(undefined)} />
            )}
          </Stack>
        )}
      </Modal>
    </>
  );
};

const Decide = ({ review, onDone }: { review: Review; onDone?: () => void }) => {
  const act = useAct("reviewPlayerQuestStep", { done: "Decided", ...(onDone ? { onDone } : {}) });
  const path = { playerId: review.playerId, questId: review.questKey, stepKey: review.stepKey };
  return (
    <Group gap={4} wrap="nowrap">
      <Button
        size="compact-xs"
        loading={act.isPending}
        onClick={() => act.mutate({ path, body: { decision: "APPROVE", submissionId: review.id } })}
      >
        Approve
      </Button>
      <FormButton
        id="reviewPlayerQuestStep"
        path={path}
        label="Reject"
        size="compact-xs"
        variant="default"
        fixed={{ decision: "REJECT", submissionId: review.id }}
        hidden={["decision", "submissionId"]}
        submit="Reject"
        done="Rejected"
        {...(onDone ? { onDone } : {})}
      />
    </Group>
  );
};

export const QuestPage = ({ id }: { id: string }) => {
  const quest = useApi("getQuest", { path: { questId: id } });
  const to = useTo();
  const can = useCan();
  const data = quest.data;
  const drafted = data && { ...data, draft: draftOf(data) };
  return (
    <Page
      title={data?.name ?? "Quest"}
      parent={{ title: "Quests", to: to("/quests") }}
      actions={
        drafted && (
          <DraftActions
            of={drafted as never}
            param="questId"
            operations={OPERATIONS}
            to={(other) => to(other ? `/quests/${other}` : "/quests")}
          />
        )
      }
    >
      <Loaded query={quest}>
        {(found) => (
          <Stack>
            <DraftState of={drafted as never} />
            <Pages
              pages={{
                design: [
                  "Design",
                  () => (
                    <>
                      {can("updateQuest") && found.status !== "ARCHIVED" ? (
                        <OperationForm
                          id="updateQuest"
                          path={{ questId: id }}
                          initial={draftOf(found)}
                          fixed={{ draftVersion: found.draftVersion }}
                          first={FIRST}
                          hidden={["draftVersion"]}
                          submit="Save the draft"
                          done="Draft saved"
                          key={found.draftVersion}
                        />
                      ) : (
                        <Json value={draftOf(found)} />
                      )}
                      <Codes quest={found} />
                    </>
                  ),
                ],
                stats: ["How it goes", () => <Stats id={id} />],
                players: ["Players", () => <QuestPlayers id={id} />],
                versions: [
                  "Versions",
                  () => <Versions of={drafted as never} param="questId" operations={OPERATIONS} />,
                ],
              }}
            />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
};

/** Steps that ask for a code have a pool of them. */
const Codes = ({ quest }: { quest: Quest }) => {
  const can = useCan();
  const steps = quest.steps.filter(({ kind }) => kind === "CODE");
  if (steps.length === 0 || !can("addQuestCodes")) return null;
  return (
    <Section title="Codes">
      {steps.map(({ key, name }) => (
        <Group key={key}>
          <Text size="sm">{name}</Text>
          <FormButton
            id="addQuestCodes"
            path={{ questId: quest.id, stepKey: key }}
            label="Add codes"
            size="xs"
            variant="default"
            submit="Add"
            done="Added"
          />
        </Group>
      ))}
    </Section>
  );
};

/** How far players come: a funnel over the steps. */
const Stats = ({ id }: { id: string }) => {
  const stats = useApi("getQuestStats", { path: { questId: id } });
  return (
    <Loaded query={stats}>
      {({ started, states, steps, averageSeconds }) => (
        <Stack>
          <SimpleGrid cols={{ base: 2, md: 4 }}>
            <Tile name="Started" value={number(started)} />
            {Object.entries(states as Record<string, number>).map(([state, count]) => (
              <Tile
                key={state}
                name={words(state)}
                value={number(count)}
                note={started > 0 ? percent(count / started) : ""}
              />
            ))}
            {averageSeconds != null && <Tile name="Takes on average" value={duration(averageSeconds)} />}
          </SimpleGrid>
          <Section title="Step by step">
            <Bars
              rows={[
                { name: "Started", value: started },
                ...steps.map(({ name, done, waiting }) => ({
                  name,
                  value: done,
                  note: `${started > 0 ? percent(done / started) : ""}${waiting > 0 ? `, ${number(waiting)} wait for a review` : ""}`,
                })),
              ]}
            />
          </Section>
        </Stack>
      )}
    </Loaded>
  );
};

const QuestPlayers = ({ id }: { id: string }) => {
  const to = useTo();
  const [, go] = useLocation();
  return (
    <List
      id="listQuestPlayers"
      path={{ questId: id }}
      name="Players of the quest"
      filters={["state", "cycleKey"]}
      onRow={({ playerId }) => go(to(`/players/${playerId}`))}
      columns={[
        { title: "Player", cell: ({ displayName, externalUserId }) => displayName ?? externalUserId },
        { title: "State", cell: ({ state }) => <Status value={state} /> },
        { title: "Done", cell: (row) => percent(row.percent / 100), isNumber: true },
        { title: "Cycle", cell: ({ cycleKey }) => cycleKey, isWideOnly: true },
        { title: "Started", cell: ({ startedAt }) => <When at={startedAt} /> },
        { title: "Completed", cell: ({ completedAt }) => <When at={completedAt} /> },
      ]}
    />
  );
};
