//! The resolver: finds the variables that each procedure captures, and the variables that need boxes.
//!
//! Closures are flat: creating one copies the values of its free variables. So a variable that may change after it was copied must be
//! stored in a box, and the box is copied. This concerns variables that a `set!` changes, and variables captured before they have their
//! value, as in procedures of one body that call each other. A procedure that refers to itself needs neither a copy nor a box: its own
//! closure is available while it runs.

use super::tree::{Body, FunctionId, Lambda, Node, Variable, VariableId};

/// The result of the resolver for one procedure.
pub struct Function {
    pub parent: FunctionId,
    /// The variables that the procedure captures, in the order of its closure's row.
    pub captures: Vec<VariableId>,
    /// The variable that always has this procedure as its value, if there is one.
    pub itself: Option<VariableId>,
}

/// Resolves a top-level form; function 0 is the form itself.
pub fn resolve(node: &mut Node, variables: &mut [Variable]) -> Vec<Function> {
    let outermost = Function { parent: 0, captures: Vec::new(), itself: None };
    let mut resolver = Resolver { variables, functions: vec![outermost] };
    resolver.node(node, 0);
    resolver.functions
}

struct Resolver<'v> {
    variables: &'v mut [Variable],
    functions: Vec<Function>,
}

impl Resolver<'_> {
    fn node(&mut self, node: &mut Node, function: FunctionId) {
        match node {
            Node::Constant(_) | Node::Integer(_) | Node::Global(..) => {}
            Node::Reference(variable) => self.mention(*variable, function),
            Node::Assign(variable, value) => {
                self.node(value, function);
                self.mention(*variable, function);
            }
            Node::AssignGlobal(_, value, _) | Node::Define(_, value) => self.node(value, function),
            Node::If(parts) => self.nodes(&mut parts[..], function),
            Node::Or(parts) => self.nodes(&mut parts[..], function),
            Node::Sequence(nodes) => self.nodes(nodes, function),
            Node::Lambda(lambda) => self.lambda(lambda, function, None),
            Node::Let(form) => {
                self.nodes(&mut form.values, function);
                self.own(&form.variables, function);
                self.node(&mut form.body, function);
            }
            Node::Body(body) => self.body(body, function),
            Node::Primitive(_, arguments, _) => self.nodes(arguments, function),
            Node::Call(procedure, arguments, ..) => {
                if !matches!(**procedure, Node::Reference(v) if self.variables[v].is_loop) {
                    self.node(procedure, function);
                }
                self.nodes(arguments, function);
            }
        }
    }

    fn nodes(&mut self, nodes: &mut [Node], function: FunctionId) {
        nodes.iter_mut().for_each(|node| self.node(node, function));
    }

    /// Records that the variables are in this function's frame.
    fn own(&mut self, variables: &[VariableId], function: FunctionId) {
        for &v in variables {
            let variable = &mut self.variables[v];
            variable.function = function;
            variable.boxed |= variable.mutated;
        }
    }

    fn lambda(&mut self, lambda: &mut Lambda, parent: FunctionId, itself: Option<VariableId>) {
        let function = self.functions.len();
        self.functions.push(Function { parent, captures: Vec::new(), itself });
        lambda.function = function;
        self.own(&lambda.parameters, function);
        self.node(&mut lambda.body, function);
    }

    fn body(&mut self, body: &mut Body, function: FunctionId) {
        self.own(&body.variables, function);
        for &v in &body.variables {
            self.variables[v].pending = true;
        }
        for (target, node) in &mut body.items {
            match node {
                Node::Lambda(lambda) => {
                    let itself = target.filter(|&v| !self.variables[v].mutated);
                    self.lambda(lambda, function, itself);
                }
                _ => self.node(node, function),
            }
            if let Some(v) = target {
                self.variables[*v].pending = false;
            }
        }
    }

    /// Records that a variable is read or assigned in this function: every function between it and the owner captures it.
    fn mention(&mut self, variable: VariableId, function: FunctionId) {
        let owner = self.variables[variable].function;
        let mut at = function;
        while at != owner {
            if self.functions[at].itself == Some(variable) {
                return;
            }
            if !self.functions[at].captures.contains(&variable) {
                self.functions[at].captures.push(variable);
            }
            at = self.functions[at].parent;
        }
        if self.variables[variable].pending {
            self.variables[variable].boxed = true;
        }
    }
}
