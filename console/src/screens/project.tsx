import { Act } from "../ui/act.tsx";
import { Alert, Badge, Button, Group, Modal, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useProject } from "../app/project.ts";
import { call, download } from "../api/client.ts";
import { tellError, useAct, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { moment, number, words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Section, SecretOnce, Status, When } from "../ui/small.tsx";
import { PlainTable } from "../ui/table.tsx";
import { useSending } from "../ui/sending.ts";

export const Keys = () => {
  const project = useProject();
  const can = useCan();
  // A sandbox has no keys of its own: test keys belong to the project it is a copy of.
  const projectId = project.sandboxOf ?? project.id;
  const [all, setAll] = useState(false);
  const keys = useApi("listApiKeys", { path: { projectId }, query: { includeRevoked: all } });
  const [secret, setSecret] = useState<string>();
  const revoke = useAct("revokeApiKey", { done: "Revoked" });
  const shown = (answer: { key: string }) => setSecret(answer.key);
  const create = can("createApiKey") && (
    <FormButton
      id="createApiKey"
      path={{ projectId }}
      label="New key"
      first={["name", "environment", "scopes", "expiresAt"]}
      initial={{ name: "", environment: project.sandboxOf ? "test" : "live" }}
      about="A live key acts on the live project, a test key on its sandbox. Without scopes it gets the usual ones."
      submit="Make the key"
      done=""
      onDone={shown}
    />
  );
  return (
    <Page
      title="API keys"
      about="Your backend sends one with every request. Never put one into a game client."
      actions={create}
    >
      {secret && <SecretOnce title="The key" value={secret} />}
      <Switch
        label="Also revoked ones"
        checked={all}
        onChange={(event) => setAll(event.currentTarget.checked)}
      />
      <Loaded query={keys}>
        {(data) =>
          data.length === 0 ? (
            <Empty title="No keys yet">{create}</Empty>
          ) : (
            <PlainTable
              name="API keys"
              rows={data}
              columns={[
                {
                  title: "Name",
                  cell: ({ name, prefix }) => (
                    <>
                      <Text size="sm" fw={500}>
                        {name}
                      </Text>
                      <Text className="mono" c="dimmed">{`${prefix}…`}</Text>
                    </>
                  ),
                },
                {
                  title: "For",
                  cell: ({ environment }) => (
                    <Badge color={environment === "live" ? "teal" : "violet"}>{words(environment)}</Badge>
                  ),
                },
                { title: "Status", cell: ({ status }) => <Status value={status} /> },
                {
                  title: "Scopes",
                  cell: ({ scopes }) => (
                    <Text size="xs" maw={360}>
                      {scopes.join(", ")}
                    </Text>
                  ),
                  isWideOnly: true,
                },
                {
                  title: "Last used",
                  cell: ({ lastUsedAt }) => (lastUsedAt ? <When at={lastUsedAt} /> : "never"),
                },
                {
                  title: "Expires",
                  cell: ({ expiresAt }) => (expiresAt ? <When at={expiresAt} /> : "never"),
                  isWideOnly: true,
                },
              ]}
              actions={
                can("revokeApiKey")
                  ? (key) =>
                      key.status === "ACTIVE" && (
                        <>
                          <FormButton
                            id="updateApiKey"
                            path={{ projectId, keyId: key.id }}
                            label="Change"
                            size="compact-xs"
                            variant="default"
                            initial={{ name: key.name, scopes: key.scopes }}
                            done="Changed"
                          />
                          <FormButton
                            id="rotateApiKey"
                            path={{ projectId, keyId: key.id }}
                            label="Rotate"
                            size="compact-xs"
                            variant="default"
                            about="The old key goes on working for the grace period."
                            submit="Make a new key"
                            done=""
                            onDone={shown}
                          />
                          <Confirm
                            label="Revoke"
                            size="compact-xs"
                            title={`Revoke ${key.name}?`}
                            name={key.name}
                            onConfirm={() => revoke.mutateAsync({ path: { projectId, keyId: key.id } })}
                          >
                            Requests with it are refused within seconds.
                          </Confirm>
                        </>
                      )
                  : undefined
              }
            />
          )
        }
      </Loaded>
    </Page>
  );
};

export const ProjectSettings = () => {
  const project = useProject();
  const can = useCan();
  const settings = useApi("getProjectSettings");
  const [, go] = useLocation();
  const remove = useAct("deleteProject", { done: "Deleted", onDone: () => go("/") });
  const isSandbox = project.sandboxOf != null;
  return (
    <Page title="Project settings" about={project.name}>
      {can("updateProject") && !isSandbox && (
        <Section title="The project">
          <OperationForm
            id="updateProject"
            path={{ projectId: project.id }}
            initial={{
              name: project.name,
              description: project.description ?? undefined,
              timezone: project.timezone,
              allowedOrigins: project.allowedOrigins,
            }}
            hidden={["settings"]}
            key={project.updatedAt}
          />
        </Section>
      )}
      <Sandbox />
      <Section title="Rules of the game">
        <Loaded query={settings}>
          {(data) => {
            const given = Object.fromEntries(Object.entries(data).filter(([, value]) => value !== null));
            return can("updateProjectSettings") ? (
              <OperationForm id="updateProjectSettings" initial={given} />
            ) : (
              <Text size="sm">Your role may not change these.</Text>
            );
          }}
        </Loaded>
      </Section>
      <Section title="All definitions as a file">
        <Files />
      </Section>
      {can("deleteProject") && !isSandbox && (
        <Section title="Danger zone">
          <Group>
            <Confirm
              label="Delete the project"
              title={`Delete ${project.name}?`}
              name={project.name}
              onConfirm={() => remove.mutateAsync({ path: { projectId: project.id } })}
            >
              Its players, events, definitions and keys go, and those of its sandbox.
            </Confirm>
          </Group>
        </Section>
      )}
    </Page>
  );
};

/** The sandbox: a copy of the definitions with its own players and its own clock. */
const Sandbox = () => {
  const project = useProject();
  const can = useCan();
  const live = project.sandboxOf ?? project.id;
  const has = project.sandboxOf != null || project.sandboxProjectId != null;
  const path = { projectId: live };
  const clock = useApi(
    "getSandboxClock",
    { path },
    { enabled: has && can("getSandboxClock"), refetchInterval: 5_000 },
  );
  const [advance, setAdvance] = useState("1d");
  const sync = useAct("syncSandbox", { done: "The sandbox has the definitions of the live project" });
  if (!can("getSandboxClock")) return null;
  return (
    <Section title="Sandbox">
      {!has ? (
        <Group>
          <Text size="sm">A copy to try definitions in, with its own players and its own clock.</Text>
          {can("createSandbox") && (
            <Act id="createSandbox" path={path} done="The sandbox is there" size="xs" isMain>
              Make a sandbox
            </Act>
          )}
        </Group>
      ) : (
        <Stack>
          {clock.data && (
            <Text size="sm">
              {clock.data.aheadSeconds === 0
                ? "Its clock shows the real time."
                : `Its clock is ahead and shows ${moment(clock.data.now)}.`}
            </Text>
          )}
          {clock.data?.lastAdvance?.happened && (
            <Text size="sm" c="dimmed">
              {Object.entries(clock.data.lastAdvance.happened.counts)
                .filter(([, count]) => count > 0)
                .map(([what, count]) => `${words(what)}: ${number(count)}`)
                .join(" · ") || "Nothing happened on the way."}
            </Text>
          )}
          <Group align="flex-end">
            <TextInput
              label="Move the clock ahead by"
              description="1h, 3d, 2w"
              value={advance}
              onChange={(event) => setAdvance(event.currentTarget.value)}
              w={200}
            />
            <Act id="setSandboxClock" path={path} body={{ advance }} done="The clock moves" size="sm">
              Move
            </Act>
            <Act id="setSandboxClock" path={path} body={{ reset: true }} done="The clock moves" size="sm">
              Back to the real time
            </Act>
            {can("syncSandbox") && (
              <Confirm
                label="Copy the live definitions into the sandbox"
                title="Overwrite the sandbox?"
                size="sm"
                color="teal"
                onConfirm={() => sync.mutateAsync({ path })}
              >
                What was changed in the sandbox alone is replaced by what is live.
              </Confirm>
            )}
          </Group>
        </Stack>
      )}
    </Section>
  );
};

type Change = { section: string; key: string; action: string; fields: string[] };

/** Definitions out of one project and into another: a sandbox goes live this way. */
const Files = () => {
  const project = useProject();
  const can = useCan();
  const twin = project.sandboxOf ?? project.sandboxProjectId;
  const [found, setFound] = useState<{ document: unknown; changes: Change[]; from: string }>();
  const { error, isBusy, send } = useSending();
  const apply = useAct("importConfig", {
    done: "The definitions are here",
    onDone: () => setFound(undefined),
  });
  const compare = async (document: unknown, from: string) => {
    const { changes } = await call("diffConfig", { body: { document } as never });
    setFound({ document, changes: changes as Change[], from });
  };
  const fromFile = async (file: File | undefined) => {
    if (file) await compare(JSON.parse(await file.text()), file.name);
  };
  const fromTwin = async () => {
    if (twin)
      await compare(
        await call("exportConfig", { project: twin }),
        project.sandboxOf ? "the live project" : "the sandbox",
      );
  };
  return (
    <Stack gap="xs">
      <Group>
        {can("exportConfig") && (
          <Button
            size="xs"
            variant="default"
            onClick={() => void download("exportConfig", `${project.name}.laurel.json`).catch(tellError)}
          >
            Save as a file
          </Button>
        )}
        {can("importConfig") && (
          <>
            <Button size="xs" variant="default" component="label">
              Compare with a file
              <input
                type="file"
                accept="application/json,.json"
                hidden
                onChange={(event) => send(() => fromFile(event.currentTarget.files?.[0]))()}
              />
            </Button>
            {twin && (
              <Button size="xs" variant="default" loading={isBusy} onClick={() => send(fromTwin)()}>
                {project.sandboxOf ? "Compare with the live project" : "Bring the sandbox's definitions here"}
              </Button>
            )}
          </>
        )}
      </Group>
      {error !== undefined && <ErrorNote error={error} />}
      <Modal
        opened={found !== undefined}
        onClose={() => setFound(undefined)}
        title={`From ${found?.from ?? ""}`}
        size="xl"
      >
        {found && (
          <Stack>
            {found.changes.length === 0 ? (
              <Alert color="teal" title="Nothing is different" />
            ) : (
              <>
                <PlainTable
                  name="Changes"
                  rows={found.changes}
                  keyOf={({ section, key }) => `${section} ${key}`}
                  columns={[
                    { title: "What", cell: ({ section, key }) => `${words(section)}: ${key}` },
                    { title: "Change", cell: ({ action }) => words(action) },
                    { title: "Fields", cell: ({ fields }) => fields.join(", ") },
                  ]}
                />
                <Group justify="flex-end">
                  <Button
                    loading={apply.isPending}
                    onClick={() => apply.mutate({ body: { document: found.document } as never })}
                  >
                    {`Bring ${number(found.changes.length)} ${found.changes.length === 1 ? "change" : "changes"} into ${project.name}`}
                  </Button>
                </Group>
              </>
            )}
          </Stack>
        )}
      </Modal>
    </Stack>
  );
};
