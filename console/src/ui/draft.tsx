import { Badge, Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import type { Id } from "../api/client.ts";
import { useAct, useAny } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { Diff } from "./diff.tsx";
import { FormButton } from "./form.tsx";
import { Empty, Loaded } from "./page.tsx";
import { Confirm, Status, When } from "./small.tsx";
import { PlainTable } from "./table.tsx";

/** What may be done with a definition that has a draft and published versions, by the names of its operations. */
export type DraftOperations = {
  publish: Id;
  pause: Id;
  resume: Id;
  end?: Id;
  shadow?: Id;
  duplicate: Id;
  archive: Id;
  rollback: Id;
  versions: Id;
};

type Drafted = {
  id: string;
  key: string;
  name: string;
  status: string;
  draft: any;
  published: any;
  draftVersion: number;
  publishedVersion: number | null;
};

/** What is no part of a definition itself. */
const KEPT = new Set([
  "id",
  "status",
  "draftVersion",
  "publishedVersion",
  "published",
  "createdAt",
  "updatedAt",
  "pauseReason",
]);

/** The draft of a definition whose fields stand beside its state. */
export const draftOf = (row: object): any =>
  Object.fromEntries(Object.entries(row).filter(([name, value]) => !KEPT.has(name) && value !== null));

const isPublished = (of: Drafted): boolean => JSON.stringify(of.draft) === JSON.stringify(of.published);

type Props = {
  of: Drafted;
  /** The name of the id in addresses: ruleId. */
  param: string;
  operations: DraftOperations;
  /** Where the list is, and one of them. */
  to: (id?: string) => string;
};

/** Buttons for what a draft and its published version go through. */
export const DraftActions = ({ of, param, operations, to }: Props) => {
  const can = useCan();
  const [, go] = useLocation();
  const path = { [param]: of.id };
  const [isOpen, setOpen] = useState(false);
  const pause = useAct(operations.pause, { done: "Paused" });
  const resume = useAct(operations.resume, { done: "Running again" });
  const shadow = useAct(operations.shadow ?? operations.pause, { done: "It runs in the shadow" });
  const end = useAct(operations.end ?? operations.archive, { done: "Ended" });
  const archive = useAct(operations.archive, { done: "Archived", onDone: () => go(to()) });
  if (!can(operations.publish)) return null;
  const run = (act: { mutate: (given: any) => void }) => () => act.mutate({ path });
  const { status } = of;
  return (
    <>
      {status !== "ARCHIVED" && (
        <Button
          variant={isPublished(of) ? "default" : "filled"}
          aria-haspopup="dialog"
          onClick={() => setOpen(true)}
        >
          Publish…
        </Button>
      )}
      {status === "ACTIVE" && (
        <Button variant="default" onClick={run(pause)}>
          Pause
        </Button>
      )}
      {(status === "PAUSED" || status === "SHADOW") && (
        <Button variant="default" onClick={run(resume)}>
          Resume
        </Button>
      )}
      {operations.shadow && status === "ACTIVE" && (
        <Button variant="default" onClick={run(shadow)}>
          Shadow
        </Button>
      )}
      {operations.end && (status === "ACTIVE" || status === "PAUSED") && (
        <Confirm
          label="End"
          size="sm"
          title={`End ${of.name}?`}
          onConfirm={() => end.mutateAsync({ path } as never)}
        >
          Nobody can go on with it. It stays visible to those who took part.
        </Confirm>
      )}
      <FormButton
        id={operations.duplicate}
        path={path}
        label="Duplicate"
        variant="default"
        initial={{ key: `${of.key}-copy`, name: `${of.name} (copy)` }}
        submit="Duplicate"
        done="Duplicated"
        onDone={({ id }) => go(to(id))}
      />
      {status !== "ARCHIVED" && (
        <Confirm
          label="Archive"
          size="sm"
          title={`Archive ${of.name}?`}
          name={of.key}
          onConfirm={() => archive.mutateAsync({ path } as never)}
        >
          It stops and leaves the lists. What players have got through it stays.
        </Confirm>
      )}
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={`Publish ${of.name}`} size="xl">
        {isOpen && <Publish of={of} path={path} operations={operations} onDone={() => setOpen(false)} />}
      </Modal>
    </>
  );
};

const Publish = ({
  of,
  path,
  operations,
  onDone,
}: {
  of: Drafted;
  path: object;
  operations: DraftOperations;
  onDone: () => void;
}) => (
  <Stack>
    {of.published ? (
      <>
        <Text size="sm">{`What changes against version ${of.publishedVersion}:`}</Text>
        <Diff before={of.published} after={of.draft} />
      </>
    ) : (
      <Text size="sm">Players have not seen it yet: this is its first version.</Text>
    )}
    <PublishForm id={operations.publish} path={path} onDone={onDone} />
  </Stack>
);

const PublishForm = ({ id, path, onDone }: { id: Id; path: object; onDone: () => void }) => {
  const publish = useAct(id, { done: "Published", onDone });
  return (
    <Group justify="flex-end">
      <FormButton
        id={id}
        path={path}
        label="With options"
        variant="default"
        submit="Publish"
        done="Published"
        onDone={onDone}
      />
      <Button loading={publish.isPending} onClick={() => publish.mutate({ path, body: {} } as never)}>
        Publish
      </Button>
    </Group>
  );
};

/** The state of a draft beside what is published. */
export const DraftState = ({ of }: { of: Drafted }) => {
  return (
    <Group gap="xs">
      <Status value={of.status} />
      {of.publishedVersion != null && <Badge color="gray">{`Version ${of.publishedVersion}`}</Badge>}
      {of.published && !isPublished(of) && <Badge color="yellow">Unpublished changes</Badge>}
    </Group>
  );
};

/** Published versions, and back to one of them. */
export const Versions = ({ of, param, operations }: Omit<Props, "to">) => {
  const path = { [param]: of.id };
  const versions = useAny(operations.versions, { path, query: { limit: 50 } });
  const rollback = useAct(operations.rollback, { done: "The older version is published again" });
  const can = useCan();
  const [shown, setShown] = useState<any>();
  return (
    <Loaded query={versions}>
      {({ data }: { data: any[] }) =>
        data.length === 0 ? (
          <Empty title="Nothing is published yet" />
        ) : (
          <>
            <PlainTable
              name="Versions"
              rows={data}
              keyOf={({ version }) => String(version)}
              onRow={setShown}
              columns={[
                { title: "Version", cell: ({ version }) => version },
                {
                  title: "Published",
                  cell: ({ publishedAt, createdAt }) => <When at={publishedAt ?? createdAt} />,
                },
                {
                  title: "By",
                  cell: ({ publishedBy, createdBy }) => publishedBy ?? createdBy,
                  isWideOnly: true,
                },
                { title: "Note", cell: ({ changeNote }) => changeNote ?? "–" },
              ]}
              actions={({ version }) =>
                can(operations.rollback) &&
                version !== of.publishedVersion && (
                  <Confirm
                    label="Publish again"
                    title={`Publish version ${version} again?`}
                    color="teal"
                    onConfirm={() => rollback.mutateAsync({ path, body: { version } } as never)}
                  >
                    Players see it at once, as a new version.
                  </Confirm>
                )
              }
            />
            <Modal
              opened={shown !== undefined}
              onClose={() => setShown(undefined)}
              title={`Version ${shown?.version} and the draft`}
              size="xl"
            >
              {shown && <Diff before={shown.definition} after={of.draft} />}
            </Modal>
          </>
        )
      }
    </Loaded>
  );
};
