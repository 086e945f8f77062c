//! Examples at the end of each command's help.

pub(super) const RENDER_EXAMPLES: &str = "\
Examples:
  # Render every pool
  seaworthy render -f manifests/

  # Print only the name of the worker pool's rendered config
  seaworthy render -f manifests/ --pool worker -o name

  # Render the objects of a cluster without fetching remote content
  oc get mc,mcp,controllerconfig -o json | seaworthy render -f - --offline -o json

  # Allow remote content from a local server
  seaworthy render -f manifests/ --allow-host 127.0.0.1:8080";

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # List everything in the worker pool's config and the MachineConfig that set it
  seaworthy explain -f manifests/ --pool worker

  # One file: the MachineConfig that set it, the ones it overrode, with a diff
  seaworthy explain -f manifests/ --pool worker /etc/chrony.conf

  # A unit, a kernel argument, a field
  seaworthy explain -f manifests/ --pool worker kubelet.service
  seaworthy explain -f manifests/ --pool worker nosmt
  seaworthy explain -f manifests/ --pool worker osImageURL -o json

  # Everything that one MachineConfig contributes to, and all SSH keys
  seaworthy explain -f manifests/ --pool worker 50-worker-time
  seaworthy explain -f manifests/ --pool worker sshAuthorizedKeys";

pub(super) const DIFF_USAGE: &str = "\
seaworthy diff [OPTIONS] -f <OLD> -f <NEW>
       seaworthy diff [OPTIONS] <OLD> <NEW>";

pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  # Compare two versions of a folder
  seaworthy diff -f manifests.old/ -f manifests/

  # Compare two rendered MachineConfigs from a cluster
  seaworthy diff -f rendered-worker-a.yaml -f rendered-worker-b.yaml

  # Compare a folder with what the cluster has
  oc get mc rendered-worker-4e1fa5d9 -o json | seaworthy diff -f - -f manifests/";

pub(super) const LINT_EXAMPLES: &str = "\
Examples:
  # In CI: fail on errors
  seaworthy lint -f manifests/

  # Fail on any finding except conflicts
  seaworthy lint -f manifests/ --strict --allow conflict";

pub(super) const DECIDE_EXAMPLES: &str = "\
Examples:
  # Which node is next, and why do the others wait?
  kubectl get mcp,nodes -o json | seaworthy rollout decide -f - --pool worker

  # As JSON
  seaworthy rollout decide -f pool.yaml -f nodes.yaml -o json";

pub(super) const PLAN_EXAMPLES: &str = "\
Examples:
  # Preview a change to the cluster
  seaworthy plan -f 50-worker-time.yaml

  # Preview deleting it
  seaworthy plan --delete -f 50-worker-time.yaml

  # Without a cluster: every object comes from files, policies and budgets included
  kubectl get mc,mcp,machineconfignode,kubeletconfig,ctrcfg,controllerconfig,no -o json > all.json
  kubectl get machineconfigurations.operator.openshift.io -o json > policies.json
  kubectl get po,pdb -A -o json > pods.json
  seaworthy plan --server-less -f all.json -f policies.json -f pods.json -f 50-worker-time.yaml";

pub(super) const CONTROLLERS_EXAMPLES: &str = "\
Examples:
  # On a new cluster: install the CustomResourceDefinitions first
  seaworthy controllers --install

  # Run only the render controller, with metrics and probes
  seaworthy controllers --only render --metrics 127.0.0.1:9090";

pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  seaworthy rollout status
  seaworthy rollout status worker
  seaworthy rollout status worker -w
  seaworthy rollout status worker -w --timeout 30m
  seaworthy rollout status worker -o json";

pub(super) const PAUSE_EXAMPLES: &str = "\
Examples:
  seaworthy rollout pause worker";

pub(super) const RESUME_EXAMPLES: &str = "\
Examples:
  seaworthy rollout resume worker";

pub(super) const UNDO_EXAMPLES: &str = "\
Examples:
  # Preview the rollback, then roll back to the previous configuration
  seaworthy rollout undo worker --dry-run
  seaworthy rollout undo worker

  # After fixing the MachineConfigs, unpin the pool
  seaworthy rollout undo worker --release";

pub(super) const HISTORY_EXAMPLES: &str = "\
Examples:
  seaworthy rollout history worker";

pub(super) const CONVERT_EXAMPLES: &str = "\
Examples:
  seaworthy ignition convert --to 3.2.0 -f config.ign
  seaworthy ignition convert --to 3.5.0 < old.ign > new.ign";

pub(super) const VALIDATE_EXAMPLES: &str = "\
Examples:
  seaworthy ignition validate -f config.ign
  seaworthy ignition validate -o json < config.ign";

pub(super) const APISERVER_EXAMPLES: &str = "\
Examples:
  seaworthy apiserver --data ./data
  kubectl --kubeconfig ./data/admin.kubeconfig get namespaces
  seaworthy apiserver --data ./data --listen 127.0.0.1:0 --kubeconfig-out ./kubeconfig";

pub(super) const CRDS_EXAMPLES: &str = "\
Examples:
  seaworthy crds | kubectl apply --server-side -f -
  seaworthy crds --group machineconfiguration.openshift.io -o json";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  # bash: for the current user, or system-wide
  seaworthy completions bash > ~/.local/share/bash-completion/completions/seaworthy
  seaworthy completions bash > /etc/bash_completion.d/seaworthy

  # zsh: any folder in $fpath; for this one add `fpath+=~/.zfunc` before compinit in ~/.zshrc
  seaworthy completions zsh > ~/.zfunc/_seaworthy

  # fish
  seaworthy completions fish > ~/.config/fish/completions/seaworthy.fish";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  # Show the page of a command
  seaworthy man render | man -l -

  # Install all pages
  seaworthy man --dir /usr/local/share/man/man1";

pub(super) const STUB_EXAMPLES: &str = "\
Examples:
  # For a worker, with the token that the endpoint requires
  seaworthy ignition stub --pool worker --server boot.example.org --ca ca.crt \\
    --token-file token > worker.ign

  # For an endpoint that requires no token
  seaworthy ignition stub --pool worker --server 10.0.0.2:22623 --ca ca.crt";

pub(super) const DAEMON_EXAMPLES: &str = "\
Examples:
  # On a node
  seaworthy daemon --node-name $(hostname)

  # In a container that has the machine's root at /host
  chroot /host /usr/local/bin/seaworthy daemon --node-name $NODE_NAME

  # Show how this node has drifted from its configuration
  seaworthy daemon --diff

  # Use a folder as the machine's root
  seaworthy daemon --node-name w1 --root w1.root --kubeconfig w1.kubeconfig";

pub(super) const SERVER_EXAMPLES: &str = "\
Examples:
  # In a cluster: machines authenticate with its bootstrap tokens
  seaworthy server --apiserver-url https://api.example.org:6443

  # Before the cluster exists: serve from a folder
  seaworthy server --bootstrap /etc/mcs/bootstrap --token-file tokens

  # With Prometheus metrics
  seaworthy server --apiserver-url https://api.example.org:6443 --metrics 127.0.0.1:9090

  # Fetch the config of the worker pool
  curl --cacert ca.crt -H \"Authorization: Bearer $(cat token)\" \\
    -H 'Accept: application/vnd.coreos.ignition+json;version=3.5.0' \\
    https://boot.example.org:22623/config/worker";

pub(super) const UP_EXAMPLES: &str = "\
Examples:
  # Start nine simulated machines
  seaworthy up
  kubectl --kubeconfig seaworthy-data/admin.kubeconfig get nodes,mcp

  # Run the scripted demo (about ten seconds)
  seaworthy up --demo

  # Start a second cluster, without machines
  seaworthy up --nodes 0 --data other --listen 127.0.0.1:0 --ignition-listen 127.0.0.1:0";

pub(super) const MANIFESTS_EXAMPLES: &str = "\
Examples:
  seaworthy manifests --image registry.example.com/seaworthy:1 |
    kubectl apply --server-side --force-conflicts -f -
  seaworthy manifests --apiserver-url https://api.example.com:6443 \\
    --node-kubeconfig /etc/kubernetes/kubelet.conf
  # Show the permissions of the controllers
  seaworthy manifests --only controllers -o json | jq '.items[] | select(.kind == \"ClusterRole\")'";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    /// A wider line is wrapped, and pasting a wrapped command runs something else.
    #[test]
    fn examples_are_not_wider_than_the_help_is_printed() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&crate::cli::Cli::command());
    }
}
