//! The average of whole numbers, from the numbers themselves: DataFusion's makes doubles of them first, which do not hold all.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
    function::{AccumulatorArgs, StateFieldsArgs},
    type_coercion::functions::fields_with_udf,
    utils::AggregateOrderSensitivity,
};

/// `avg`, which takes whole numbers as they are; other functions are returned as they are.
pub(super) fn average(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "avg" => Arc::new(AggregateUDF::from(Average {
            inner: function,
            signature: Signature::user_defined(Volatility::Immutable),
        })),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let [whole] = types
            && whole.is_integer()
        {
            return Ok(types.to_vec());
        }
        let fields: Vec<FieldRef> = types.iter().map(|kind| Arc::new(Field::new("v", kind.clone(), true))).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [whole] if whole.is_integer() => Ok(DataType::Float64),
            _ => self.inner.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(kind)
    }
}
