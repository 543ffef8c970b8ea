import { Badge, Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ReactNode } from "react";
import { useGo } from "../app/project.ts";
import { type Id, operation } from "../api/client.ts";
import { useAct, useAny } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { words } from "../format.ts";
import { act, ask } from "./act.tsx";
import { Diff } from "./diff.tsx";
import { form, OperationForm } from "./form.tsx";
import { Loaded, Page } from "./page.tsx";
import { Json, Status } from "./small.tsx";
import { Rows } from "./table.tsx";
import { type TabPages, Pages } from "./tabs.tsx";

/** A kind of definition that has a draft and published versions, by which its operations are named. */
export type DraftKind = "rule" | "quest" | "adventure";

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
const KEPT = /^(id|status|draft|draftVersion|publishedVersion|published|createdAt|updatedAt|pauseReason)$/;

/** A definition with its draft, whose fields may stand beside its state. */
const draftedOf = (row: any): Drafted => {
  const fields = Object.entries(row).filter(([name, value]) => !KEPT.test(name) && value !== null);
  return { draft: Object.fromEntries(fields), ...row };
};

const isPublished = (of: Drafted): boolean => JSON.stringify(of.draft) === JSON.stringify(of.published);

type PageProps = {
  kind: DraftKind;
  id: string;
  /** Parts of the screen between the form and the versions. */
  pages: (of: any) => TabPages;
  /** Between the state and the parts. */
  note?: (of: any) => ReactNode;
  design: (of: any) => ReactNode;
};

/** The screen of one definition: its form, what else there is to it, and its versions. */
export const DraftPage = ({ kind, id, pages, note, design }: PageProps) => {
  const found = useAny(operation("get", kind), { path: { [`${kind}Id`]: id } });
  const of = found.data && draftedOf(found.data);
  return (
    <Page
      title={of?.name ?? words(kind)}
      parent={[`${words(kind)}s`, `/${kind}s`]}
      actions={of && <Actions of={of} kind={kind} />}
    >
      <Loaded query={found}>
        {() => (
          <Stack>
            <Group gap="xs">
              <Status value={of.status} />
              {of.publishedVersion != null && <Badge color="gray">{`Version ${of.publishedVersion}`}</Badge>}
              {of.published && !isPublished(of) && <Badge color="yellow">Unpublished changes</Badge>}
            </Group>
            {note?.(of)}
            <Pages
              pages={{
                design: ["Design", () => design(of)],
                ...pages(of),
                versions: ["Versions", () => <Versions of={of} kind={kind} />],
              }}
            />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
};

type FormProps = {
  kind: DraftKind;
  of: any;
  first: readonly string[];
  onChange?: (value: any) => void;
  done?: string;
  children?: ReactNode;
};

/** The form of a draft; whoever may not change it sees it as JSON. */
export const DraftForm = ({ kind, of, done = "Draft saved", ...rest }: FormProps) => {
  const can = useCan();
  const id = operation("update", kind);
  if (!can(id) || of.status === "ARCHIVED") return <Json value={of.draft} />;
  return (
    <OperationForm
      {...rest}
      id={id}
      path={{ [`${kind}Id`]: of.id }}
      initial={of.draft}
      fixed={{ draftVersion: of.draftVersion }}
      hidden={["draftVersion"]}
      submit="Save the draft"
      done={done}
      key={of.draftVersion}
    />
  );
};

type Props = { of: Drafted; kind: DraftKind };

/** Buttons for what a draft and its published version go through. */
const Actions = ({ of, kind }: Props) => {
  const can = useCan();
  const go = useGo();
  const [isOpen, { open, close }] = useDisclosure(false);
  const path: any = { [`${kind}Id`]: of.id };
  const { status, name } = of;
  if (!can(operation("publish", kind))) return null;
  const isActive = status === "ACTIVE";
  const isPaused = status === "PAUSED";
  const isArchived = status === "ARCHIVED";
  return (
    <>
      {!isArchived && (
        <Button variant={isPublished(of) ? "default" : "filled"} onClick={open}>
          Publish…
        </Button>
      )}
      {isActive && act(operation("pause", kind), "Pause", { path, done: "Paused" })}
      {(isPaused || status === "SHADOW") &&
        act(operation("resume", kind), "Resume", { path, done: "Running again" })}
      {isActive && act(operation("shadow", kind), "Shadow", { path, done: "It runs in the shadow" })}
      {(isActive || isPaused) &&
        ask(operation("end", kind), "End", {
          path,
          of: name,
          text: "Nobody can go on with it. It stays visible to those who took part.",
        })}
      {form(operation("duplicate", kind), "Duplicate", {
        path,
        initial: { key: `${of.key}-copy`, name: `${name} (copy)` },
        onDone: ({ id }) => go(`/${kind}s/${id}`),
      })}
      {!isArchived &&
        ask(operation("archive", kind), "Archive", {
          path,
          of: name,
          name: of.key,
          onDone: () => go(`/${kind}s`),
          text: "It stops and leaves the lists. What players have got through it stays.",
        })}
      <Modal opened={isOpen} onClose={close} title={`Publish ${name}`} size="xl">
        {isOpen && <Publish of={of} id={operation("publish", kind)} path={path} onDone={close} />}
      </Modal>
    </>
  );
};

type PublishProps = { of: Drafted; id: Id; path: object; onDone: () => void };

const Publish = ({ of, id, path, onDone }: PublishProps) => {
  const publish = useAct(id, { done: "Published", onDone });
  return (
    <Stack>
      <Text size="sm">
        {of.published
          ? `What changes against version ${of.publishedVersion}:`
          : "Players have not seen it yet: this is its first version."}
      </Text>
      {of.published && <Diff before={of.published} after={of.draft} />}
      <Group justify="flex-end">
        {form(id, "With options", { path, submit: "Publish", onDone })}
        <Button loading={publish.isPending} onClick={() => publish.mutate({ path, body: {} } as never)}>
          Publish
        </Button>
      </Group>
    </Stack>
  );
};

/** Published versions, and back to one of them. */
const Versions = ({ of, kind }: Props) => {
  const path: any = { [`${kind}Id`]: of.id };
  return (
    <Rows
      id={operation("list", `${kind}Versions`) as "listRuleVersions"}
      given={{ path, query: { limit: 50 } }}
      name="Versions"
      empty="Nothing is published yet"
      keyOf={({ version }) => String(version)}
      dialog={[
        ({ version }) => `Version ${version} and the draft`,
        ({ definition }) => <Diff before={definition} after={of.draft} />,
      ]}
      columns={{
        Version: "version",
        Published: "publishedAt",
        By: "publishedBy",
        Note: "changeNote",
      }}
      wide={["By"]}
      actions={({ version }) =>
        version !== of.publishedVersion &&
        ask(operation("rollback", kind), "Publish again", {
          path,
          body: { version } as never,
          title: `Publish version ${version} again?`,
          color: "teal",
          done: "The older version is published again",
          text: "Players see it at once, as a new version.",
        })
      }
    />
  );
};
